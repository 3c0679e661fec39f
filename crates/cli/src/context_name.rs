//! The name of a context.

use std::fmt;
use std::str::FromStr;

/// A name that a shell and YAML take without quotes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContextName(String);

/// Why a text is no name of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a context's name has letters, digits and `._@:-`, begins with a letter or digit, and has at most 128 characters"
)]
pub(crate) struct InvalidContextName;

const MAX_LENGTH: usize = 128;

impl FromStr for ContextName {
    type Err = InvalidContextName;

    fn from_str(text: &str) -> Result<Self, InvalidContextName> {
        let is_valid = text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.len() <= MAX_LENGTH
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._@:-".contains(c))
            // YAML reads `name:` at the end of a key as the end of the key.
            && !text.ends_with(':');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidContextName) }
    }
}

impl ContextName {
    /// The name of the settings in a file without contexts.
    pub(crate) fn of_old_file() -> Self {
        Self("default".to_owned())
    }

    /// The name that is most like `text`, which may have other characters than a name.
    pub(crate) fn like(text: &str) -> Self {
        let text: String = text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._@:-".contains(c) { c } else { '-' })
            .take(MAX_LENGTH)
            .collect();
        let text = text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        text.trim_end_matches(':').parse().unwrap_or_else(|InvalidContextName| Self::of_old_file())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContextName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_no_quotes_in_a_shell_or_in_yaml() {
        for name in ["acme", "acme@localhost:8080", "80", "a-b_c.d", &"x".repeat(128)] {
            assert_eq!(name.parse::<ContextName>().unwrap().as_str(), name);
        }
        for name in ["", "-x", "a b", "a:", "*", "~", "a/b", "a\n", "ä", "<<", &"x".repeat(129)] {
            assert_eq!(name.parse::<ContextName>(), Err(InvalidContextName), "{name:?}");
        }
    }

    #[test]
    fn every_text_has_a_name_that_is_like_it() {
        for (text, name) in [
            ("acme@[::1]:8080", "acme@-::1-:8080"),
            ("-:x:", "x"),
            ("", "default"),
            ("ä", "default"),
        ] {
            assert_eq!(ContextName::like(text).as_str(), name, "{text}");
        }
        assert_eq!(ContextName::like(&"x".repeat(200)).as_str().len(), 128);
    }
}
