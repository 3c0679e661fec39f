//! Replaces known secrets in the text that the runner writes and ships.
//!
//! Only exact values are recognized, so masking is the last protection and not the first. Every byte of a
//! secret becomes `*`: the length stays, so that an offset in a file is the offset in the shipped stream.

use crate::url_credentials;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter values are common words: masking `true` would hide no secret and make the log unreadable.
const SHORTEST: usize = 6;

/// The same for one line of a secret with several lines: these have markers and short words in them.
const SHORTEST_LINE: usize = 8;

/// How many JSON strings, one within the other, a secret is recognized in.
const NESTED: usize = 4;

/// A variable whose name contains one of these words holds a secret.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PRIVATE", "CREDENTIAL", "KEY"];

/// Known secrets, in each form in which OpenTofu may repeat them.
#[derive(Clone, Default)]
pub struct Mask {
    /// Longest first, so that a secret that contains another one is masked as a whole.
    forms: Vec<Vec<u8>>,
    /// The same for secrets that change during the run, such as tokens.
    rotating: Arc<RwLock<Vec<Vec<u8>>>>,
    /// Whether credentials in addresses are masked too. An empty mask must leave every byte unchanged, because
    /// encrypted bytes may look like an address.
    addresses: bool,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask of {} forms", self.forms.len())
    }
}

/// Whether a variable of this name holds a secret. A name for the path of a file with a secret does not count.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_path = name.ends_with("_FILE") || name.ends_with("_PATH");
    !is_path && SECRET_WORDS.iter().any(|word| name.contains(word))
}

impl Mask {
    /// Masks `secrets`, and the values in `environment` whose names suggest a secret.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a str>,
        environment: &'a BTreeMap<String, String>,
    ) -> Self {
        let named = environment.iter().filter(|(name, _)| is_secret_name(name));
        let secrets = secrets.into_iter().chain(named.map(|(_, value)| value.as_str()));
        Self { forms: forms_of_all(secrets), rotating: Arc::default(), addresses: true }
    }

    /// Masks `secrets` and nothing else, not even credentials in addresses.
    pub fn of_values<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        Self { forms: forms_of_all(secrets), rotating: Arc::default(), addresses: false }
    }

    /// Replaces the secrets of the previous call by `secrets`, here and in every clone.
    pub fn set_rotating<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let forms = forms_of_all(secrets);
        *self.rotating.write().unwrap_or_else(PoisonError::into_inner) = forms;
    }

    /// The length of the longest form, in bytes: a cut through a secret affects at most so many bytes on each side.
    pub fn reach(&self) -> usize {
        let rotating = self.rotating.read().unwrap_or_else(PoisonError::into_inner);
        let longest = [self.forms.first(), rotating.first()];
        let longest = longest.into_iter().flatten().map(Vec::len).max().unwrap_or(0);
        if self.addresses { longest.max(url_credentials::REACH) } else { longest }
    }

    /// Masks every secret that is completely in `bytes`.
    pub fn apply(&self, bytes: &mut [u8]) {
        let rotating = self.rotating.read().unwrap_or_else(PoisonError::into_inner);
        for form in self.forms.iter().chain(rotating.iter()) {
            let mut from = 0;
            while let Some(at) = find(&bytes[from..], form) {
                let begin = from + at;
                bytes[begin..begin + form.len()].fill(b'*');
                from = begin + form.len();
            }
        }
        if self.addresses {
            url_credentials::hide(bytes);
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

fn forms_of_all<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let forms = secrets.into_iter().flat_map(forms_of);
    let mut forms: Vec<_> = forms.filter(|form| form.len() >= SHORTEST).collect();
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

/// The forms of a secret: the value; its long lines; each of these without white space at its ends, or with single
/// spaces only, as error messages print it. Each of these also inside JSON strings, and as a part of an address. The whole
/// value also in base64, with and without padding.
fn forms_of(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    let trimmed = secret.trim_end_matches(['\r', '\n']);
    let is_long = |line: &&str| line.trim().len() > SHORTEST_LINE;
    let mut texts: Vec<_> = [secret, trimmed].map(str::to_owned).into();
    for text in std::iter::once(secret).chain(secret.lines().filter(is_long)) {
        let words: Vec<_> = text.split_whitespace().collect();
        texts.extend([text.to_owned(), text.trim().to_owned(), words.join(" ")]);
    }
    for text in texts {
        forms.extend([in_query(&text), in_query(&text).replace('+', "%20")]);
        forms.extend(quoted(&text));
        forms.push(text);
    }
    forms.into_iter().map(String::into_bytes).collect()
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

fn find(bytes: &[u8], form: &[u8]) -> Option<usize> {
    let first = *form.first()?;
    let last = bytes.len().checked_sub(form.len())?;
    let mut from = 0;
    while from <= last {
        from += bytes[from..=last].iter().position(|byte| *byte == first)?;
        if bytes[from..].starts_with(form) {
            return Some(from);
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_secret_is_masked_in_json_within_json(secret in "[a-z\"\\\\&<>\u{2028}\n=+/é ]{6,20}", levels in prop::collection::vec(any::<bool>(), 0..=NESTED)) {
            let mask = Mask::new([secret.as_str()], &BTreeMap::new());
            let mut text = secret.clone();
            for is_of_go in levels {
                let quoted = if is_of_go { in_json_of_go(&text) } else { in_json(&text) };
                text = format!("{{\"x\":\"{quoted}\"}}");
                // What is around the secret is quoted too, in the next level.
                let masked = mask.text(&text);
                prop_assert!(masked.contains("******"), "{text}: {masked}");
            }
        }
    }

    #[test]
    fn a_secret_is_masked_in_every_form_and_the_length_stays() {
        let environment = BTreeMap::from(
            [("DB_PASSWORD", "p\"w-7789"), ("REGION", "eu-west-1"), ("API_KEY", "true")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let key = "{\n  \"private_key\":   \"MIIE\"\n}\n";
        let secrets = [
            "token-123",
            "line-number-1\nline-number-2",
            "a<b>&cé",
            "two  blanks ",
            key,
            "a\u{2028}b-\u{2029}cd",
        ];
        let mask = Mask::new(secrets, &environment);
        for (given, expected) in [
            ("a token-123token-123 b", "a ****************** b"),
            (r#"say p"w-7789!"#, "say ********!"),
            (r#"{"a":"p\"w-7789"}"#, r#"{"a":"*********"}"#),
            ("dG9rZW4tMTIz", "************"),
            ("+ line-number-2", "+ *************"),
            ("eu-west-1 true token-12", "eu-west-1 true token-12"),
            (r#""{\"a\":\"p\\\"w-7789\"}""#, r#""{\"a\":\"***********\"}""#),
            ("a<b>&cé", "********"),
            (r#"{"x":"a\u003cb\u003e\u0026cé"}"#, r#"{"x":"***********************"}"#),
            ("YTxiPiZjw6k= YTxiPiZjw6k", "***********= ***********"),
            ("https://h/?p=a%3Cb%3E%26c%C3%A9&q=1", "https://h/?p=******************&q=1"),
            ("h/two++blanks+/two%20%20blanks%20", "h/************/******************"),
            (r#"{"x":"a\u2028b-\u2029cd"}"#, r#"{"x":"*****************"}"#),
            // Error messages join white space to single spaces.
            ("two blanks", "**********"),
            ("two  blanks", "***********"),
            (r#"said { "private_key": "MIIE" }"#, "said *************************"),
            (r#"said "private_key": "MIIE" and"#, "said ********************* and"),
        ] {
            assert_eq!(mask.text(given), expected);
        }
    }
}
