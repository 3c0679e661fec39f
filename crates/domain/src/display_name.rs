//! The display name of a project, an environment or an environment type.

use serde::{Deserialize, Serialize};

/// A name for users: 2 to 60 characters, no control characters, no space at either end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DisplayName(String);

/// Why a text is not a display name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have 2 to 60 characters, no control characters, and no space at either end")]
pub struct InvalidDisplayName;

impl DisplayName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The default name: the id, cut to the maximum length.
    pub fn from_id(id: &str) -> Self {
        Self(id.chars().take(60).collect())
    }
}

impl TryFrom<String> for DisplayName {
    type Error = InvalidDisplayName;
    fn try_from(text: String) -> Result<Self, InvalidDisplayName> {
        let length = text.chars().count();
        // The published pattern: a plain space is the only white space, and only inside.
        let allowed = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
        let good = (2..=60).contains(&length)
            && text.chars().all(allowed)
            && !text.starts_with(' ')
            && !text.ends_with(' ');
        if good { Ok(Self(text)) } else { Err(InvalidDisplayName) }
    }
}

impl From<DisplayName> for String {
    fn from(name: DisplayName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_name_is_short_and_printable() {
        for good in ["ab", "Größe 2", "支付 api"] {
            assert!(DisplayName::try_from(good.to_owned()).is_ok(), "{good:?}");
        }
        for bad in ["", "a", " ab", "ab ", "a\tb", "a\u{a0}b", "a\nb", &"x".repeat(61)] {
            assert!(DisplayName::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
