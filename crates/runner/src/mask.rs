//! Takes known secrets out of what is written and shipped.
//!
//! Only exact values are known, so this is the last net and not the first. Every byte of a secret
//! becomes `*`: the length stays, so that an offset in a file is the offset in the shipped stream.

use base64::{Engine, engine::general_purpose::STANDARD};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter values are words that stand everywhere: masking `true` would hide nothing and spoil all.
const SHORTEST: usize = 6;

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
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask of {} forms", self.forms.len())
    }
}

/// Whether a variable of this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

impl Mask {
    /// Masks `secrets`, and the values in `environment` whose names look secret.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a str>,
        environment: &'a BTreeMap<String, String>,
    ) -> Self {
        let named = environment.iter().filter(|(name, _)| is_secret_name(name));
        let secrets = secrets.into_iter().chain(named.map(|(_, value)| value.as_str()));
        Self { forms: forms_of_all(secrets), passing: Arc::default() }
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
        longest.into_iter().flatten().map(Vec::len).max().unwrap_or(0)
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

/// As it is, its long lines, inside a JSON string (once, and twice as in an echoed line), in base64.
fn forms_of(secret: &str) -> Vec<Vec<u8>> {
    let json = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = json(secret);
    let twice = json(&once);
    let mut forms = vec![secret.as_bytes().to_vec(), STANDARD.encode(secret).into_bytes()];
    forms.extend([once.into_bytes(), twice.into_bytes()]);
    forms.extend(secret.lines().filter(|line| line.len() > 8).map(|line| line.as_bytes().to_vec()));
    forms
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
        let mask = Mask::new(["token-123", "line-number-1\nline-number-2"], &environment);
        for (given, expected) in [
            ("a token-123token-123 b", "a ****************** b"),
            (r#"say p"w-7789!"#, "say ********!"),
            (r#"{"a":"p\"w-7789"}"#, r#"{"a":"*********"}"#),
            ("dG9rZW4tMTIz", "************"),
            ("+ line-number-2", "+ *************"),
            ("eu-west-1 true token-12", "eu-west-1 true token-12"),
        ] {
            assert_eq!(mask.text(given), expected);
        }
    }
}
