//! Takes known secrets out of what is written and shipped.
//!
//! Only exact values are known, so this is the last net and not the first. Every byte of a secret
//! becomes `*`: the length stays, so that an offset in a file is the offset in the shipped stream.

use crate::url_credentials;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter values are words that stand everywhere: masking `true` would hide nothing and spoil all.
const SHORTEST: usize = 6;

/// The same for a line of a secret with several: these have markers and short words in them.
const SHORTEST_LINE: usize = 8;

/// What the names of variables with secrets have in them.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PRIVATE", "CREDENTIAL", "KEY"];

/// Known secrets, in each form in which OpenTofu may repeat them.
#[derive(Clone, Default)]
pub struct Mask {
    /// Longest first, so that a secret inside another is not all that is masked of it.
    forms: Vec<Vec<u8>>,
    /// The same of secrets that come and go while the run lasts.
    passing: Arc<RwLock<Vec<Vec<u8>>>>,
    /// Whether credentials in addresses are masked too. A mask of nothing must leave every byte as it
    /// is: encrypted ones may look like an address.
    addresses: bool,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask of {} forms", self.forms.len())
    }
}

/// Whether a variable of this name holds a secret, and not the path of a file with one.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_path = name.ends_with("_FILE") || name.ends_with("_PATH");
    !is_path && SECRET_WORDS.iter().any(|word| name.contains(word))
}

impl Mask {
    /// Masks `secrets`, and the values in `environment` whose names look secret.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a str>,
        environment: &'a BTreeMap<String, String>,
    ) -> Self {
        let named = environment.iter().filter(|(name, _)| is_secret_name(name));
        let secrets = secrets.into_iter().chain(named.map(|(_, value)| value.as_str()));
        Self { forms: forms_of_all(secrets), passing: Arc::default(), addresses: true }
    }

    /// Masks `secrets` too from now on, here and in every clone, and those of before no more.
    pub fn set_passing<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let forms = forms_of_all(secrets);
        *self.passing.write().unwrap_or_else(PoisonError::into_inner) = forms;
    }

    /// The length of the longest form: as far as a cut through one reaches.
    pub fn reach(&self) -> usize {
        let passing = self.passing.read().unwrap_or_else(PoisonError::into_inner);
        let longest = [self.forms.first(), passing.first()];
        let longest = longest.into_iter().flatten().map(Vec::len).max().unwrap_or(0);
        if self.addresses { longest.max(url_credentials::REACH) } else { longest }
    }

    /// Masks every secret that is whole in `bytes`.
    pub fn apply(&self, bytes: &mut [u8]) {
        let passing = self.passing.read().unwrap_or_else(PoisonError::into_inner);
        for form in self.forms.iter().chain(passing.iter()) {
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
        // Forms are whole UTF-8 strings, so what is left is one too.
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

/// As it is, its long lines, and each of these without white space at its ends, or with single blanks only, as messages
/// have it; all that inside a JSON string (once, and twice as in an echoed line). As a whole in base64, with and without
/// padding.
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
        for quote in [in_json, in_json_of_go] {
            let once = quote(&text);
            forms.extend([quote(&once), once]);
        }
        forms.push(text);
    }
    forms.into_iter().map(String::into_bytes).collect()
}

/// `text` inside a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The same as Go's `encoding/json` and OpenTofu's `jsonencode` write it: safe within HTML.
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
            (r#"{"x":"a\u2028b-\u2029cd"}"#, r#"{"x":"*****************"}"#),
            // As messages have them, whose white space is drawn together.
            ("two blanks", "**********"),
            ("two  blanks", "***********"),
            (r#"said { "private_key": "MIIE" }"#, "said *************************"),
            (r#"said "private_key": "MIIE" and"#, "said ********************* and"),
        ] {
            assert_eq!(mask.text(given), expected);
        }
    }
}
