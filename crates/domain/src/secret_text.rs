//! A text that is a secret.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The shortest text of a secret, in bytes: the runner masks no shorter one in logs, because it may be a common word.
pub const MIN_SECRET_BYTES: usize = 6;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(***)")
    }
}
