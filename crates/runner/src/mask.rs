//! Replaces known secrets in the text that the runner writes and ships.
//!
//! A secret is recognized as a whole, in the encodings of `mask/layers.rs`, so masking is the last protection and not the
//! first. Every byte of a secret becomes `*`: the length stays, so that an offset in a file is the offset in the shipped
//! stream.

mod layers;

use crate::{code_commit_signature, url_credentials};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use canyon_domain::secret_name::is_secret_name;
use layers::Layer;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter values are common words: masking `true` would hide no secret and make the log unreadable.
const SHORTEST: usize = 6;

/// The same for one line of a secret with several lines: these have markers and short words in them.
const SHORTEST_LINE: usize = 8;

/// How many layers of escapes, such as JSON strings one within the other, a secret is recognized in.
const NESTED: usize = 4;

/// How many layers of base64 or hexadecimal digits, one within the other.
const ENCODINGS: usize = 2;

/// The longest that the encodings write for one byte: the quote of a JSON string within [`NESTED`] others.
const LONGEST_ESCAPE: usize = 16;

/// Text is searched in pieces of this size, which overlap, because the layers of a text need several times its memory.
const PIECE: usize = 64 * 1024;

/// How many bytes of a value programs write in one line: `base64` and PEM in base64, and `xxd -p` in hexadecimal digits. The
/// output of a module comes line by line, so each line is recognized by itself.
const IN_LINES: [usize; 4] = [57, 54, 48, 30];

/// Known secrets.
#[derive(Clone, Default)]
pub struct Mask {
    known: Option<Arc<Forms>>,
    /// The same for secrets that change during the run, such as tokens.
    rotating: Arc<RwLock<Option<Forms>>>,
    /// Whether credentials in addresses are masked too. An empty mask must leave every byte unchanged, because
    /// encrypted bytes may look like an address.
    addresses: bool,
}

/// What is searched for in each layer of a text.
struct Forms {
    automaton: AhoCorasick,
    longest: usize,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let forms = self.known.as_ref().map_or(0, |known| known.automaton.patterns_len());
        write!(f, "Mask of {forms} forms")
    }
}

impl Mask {
    /// Masks `secrets`, and the values in `environment` whose names suggest a secret.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a str>,
        environment: &'a BTreeMap<String, String>,
    ) -> Self {
        let named = environment.iter().filter(|(name, _)| is_secret_name(name));
        let secrets = secrets.into_iter().chain(named.map(|(_, value)| value.as_str()));
        Self { known: Forms::new(secrets).map(Arc::new), rotating: Arc::default(), addresses: true }
    }

    /// Masks `secrets` and nothing else, not even credentials in addresses.
    pub fn of_values<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            known: Forms::new(secrets).map(Arc::new),
            rotating: Arc::default(),
            addresses: false,
        }
    }

    /// Replaces the secrets of the previous call by `secrets`, here and in every clone.
    pub fn set_rotating<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let forms = Forms::new(secrets);
        *self.rotating.write().unwrap_or_else(PoisonError::into_inner) = forms;
    }

    /// How many bytes on each side a cut through a secret affects, at most: the longest form, in its longest encoding.
    pub fn reach(&self) -> usize {
        let rotating = self.rotating.read().unwrap_or_else(PoisonError::into_inner);
        let all = [self.known.as_deref(), rotating.as_ref()];
        let longest = all.into_iter().flatten().map(Forms::reach).max().unwrap_or(0);
        let own = url_credentials::REACH.max(code_commit_signature::REACH);
        if self.addresses { longest.max(own) } else { longest }
    }

    /// Masks every secret that is completely in `bytes`. The time grows with the length of `bytes`, not with the number
    /// of secrets.
    pub fn apply(&self, bytes: &mut [u8]) {
        let rotating = self.rotating.read().unwrap_or_else(PoisonError::into_inner);
        let all = [self.known.as_deref(), rotating.as_ref()];
        let mut marks = vec![false; bytes.len()];
        all.into_iter().flatten().for_each(|forms| forms.mark(bytes, &mut marks));
        for (byte, _) in bytes.iter_mut().zip(marks).filter(|(_, is_secret)| *is_secret) {
            *byte = b'*';
        }
        if self.addresses {
            url_credentials::hide(bytes);
            code_commit_signature::hide(bytes);
        }
    }

    /// `text` without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        self.apply(&mut bytes);
        // Each form is whole UTF-8 text, so the result is valid UTF-8 too.
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Forms {
    /// The forms of `secrets`, or `None` if there is nothing to search for.
    fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let forms = secrets.into_iter().flat_map(forms_of);
        let forms: BTreeSet<_> = forms.filter(|form| form.len() >= SHORTEST).collect();
        let longest = forms.iter().map(String::len).max()?;
        // This kind of automaton needs the least memory for a secret of many kilobytes.
        let mut builder = AhoCorasick::builder();
        let automaton = builder.kind(Some(AhoCorasickKind::ContiguousNFA)).build(forms);
        #[expect(clippy::expect_used, reason = "a build fails only for 2 GiB of forms")]
        let automaton = automaton.expect("the forms are smaller than 2 GiB");
        Some(Self { automaton, longest })
    }

    fn reach(&self) -> usize {
        LONGEST_ESCAPE * self.longest
    }

    /// Marks the bytes that a secret was written as.
    fn mark(&self, bytes: &[u8], marks: &mut [bool]) {
        let reach = self.reach();
        let piece = PIECE.max(reach);
        for begin in (0..bytes.len()).step_by(piece) {
            let part = begin..bytes.len().min(begin + piece + reach);
            let layer = Layer::new(&bytes[part.clone()]);
            self.search(&layer, NESTED, ENCODINGS, &mut |source: Range<usize>| {
                let is_decoded = source.len() > 1;
                for at in source.start + begin..source.end + begin {
                    // Line breaks that divide an encoded text stay: they are not part of it.
                    marks[at] |= !is_decoded || !matches!(bytes[at], b'\n' | b'\r');
                }
            });
        }
    }

    /// Passes the sources of the secrets in `layer`, and in up to `nested` layers of escapes and `encodings` of base64 or
    /// hexadecimal digits below it.
    fn search(
        &self,
        layer: &Layer,
        nested: usize,
        encodings: usize,
        found: &mut dyn FnMut(Range<usize>),
    ) {
        let mut secrets: Vec<Range<usize>> = Vec::new();
        for form in self.automaton.find_overlapping_iter(layer.bytes()) {
            let mut begin = form.start();
            // The ends of matches ascend.
            while let Some(last) = secrets.pop_if(|last| last.end >= begin) {
                begin = begin.min(last.start);
            }
            secrets.push(begin..form.end());
        }
        secrets.into_iter().flatten().for_each(|at| found(layer.source(at)));
        if nested > 0
            && let Some(unescaped) = layer.unescaped(2 * LONGEST_ESCAPE * self.longest)
        {
            self.search(&unescaped, nested - 1, encodings, found);
        }
        if encodings > 0 {
            for decoded in layer.decoded_runs() {
                self.search(&decoded, nested, encodings - 1, found);
            }
        }
    }
}

/// The forms of a secret that are searched for in every layer: the value; its long lines; each of these without white
/// space at its ends, or with single spaces only, as error messages print it.
fn forms_of(secret: &str) -> Vec<String> {
    let trimmed = secret.trim_end_matches(['\r', '\n']);
    let is_long = |line: &&str| line.trim().len() > SHORTEST_LINE;
    let mut texts = BTreeSet::from([secret, trimmed].map(str::to_owned));
    for text in std::iter::once(secret).chain(secret.lines().filter(is_long)) {
        let words: Vec<_> = text.split_whitespace().collect();
        texts.extend([text.to_owned(), text.trim().to_owned(), words.join(" ")]);
    }
    let mut forms = Vec::new();
    if secret.len() < SHORTEST {
        forms.extend([STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)]);
    }
    forms.extend(IN_LINES.iter().flat_map(|width| in_lines(secret, *width)));
    for text in texts {
        let written = [in_query(&text), in_query(&text).replace('+', "%20"), in_html(&text)];
        let written = written.into_iter().chain(quoted(&text));
        // The query of an address has `+` for a space.
        forms.extend([text.replace(' ', "+"), text.clone()]);
        forms.extend(written.filter(|written| !is_layer(&text, written)));
    }
    forms
}

/// What a line has of a longer secret if each has `width` bytes of it.
fn in_lines(secret: &str, width: usize) -> impl Iterator<Item = String> {
    let parts = secret.as_bytes().chunks(width).filter(move |_| secret.len() > width);
    let long = parts.filter(|part| part.len() > SHORTEST_LINE);
    // A part that begins or ends within a character is not searched for.
    long.filter_map(|part| std::str::from_utf8(part).ok().map(str::to_owned))
}

/// Whether `text` is searched for, and is one of the layers of `written`. It is none if `text` itself looks like an
/// escape of another kind than that which it was written with.
fn is_layer(text: &str, written: &str) -> bool {
    let is_escaped = |text: &str| text.contains(['\\', '%', '&', '$']);
    let plus = text.replace(' ', "+");
    let contains = |layer: &Layer| {
        let layer = String::from_utf8_lossy(layer.bytes());
        layer.contains(text) || layer.contains(&plus)
    };
    if text.len() < SHORTEST {
        return false;
    }
    if !is_escaped(text) {
        return true;
    }
    let mut layer = Some(Layer::new(written.as_bytes()));
    for _ in 0..=NESTED {
        let Some(found) = layer else { return false };
        if contains(&found) {
            return true;
        }
        layer = found.unescaped(written.len());
    }
    false
}

/// `text` inside JSON strings that are in JSON strings, up to [`NESTED`] times, each written as by Go or as by others: an
/// output may be the JSON of a JSON text, and OpenTofu prints it in a line of JSON.
fn quoted(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut last = BTreeSet::from([text.to_owned()]);
    for _ in 0..NESTED {
        last = last.iter().flat_map(|text| [in_json(text), in_json_of_go(text)]).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// `text` in the query of an address, as Go's `url.QueryEscape` and OpenTofu's `urlencode` write it. In a path, a space is
/// `%20`.
fn in_query(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('*', "%2A")
}

/// `text` in HTML.
fn in_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// `text` inside a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// `text` inside a JSON string, as Go's `encoding/json` and OpenTofu's `jsonencode` write it: escaped for HTML.
fn in_json_of_go(text: &str) -> String {
    let quoted =
        in_json(text).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    quoted.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests;
