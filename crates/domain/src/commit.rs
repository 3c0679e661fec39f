//! The id of a commit in a git repository.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A full commit id: 40 lower case hexadecimal digits, or 64 in a repository with SHA-256
/// (<https://git-scm.com/docs/hash-function-transition>).
///
/// ```
/// use canyon_domain::commit::Commit;
///
/// assert!("0a1b2c3d4e5f60718293a4b5c6d7e8f901234567".parse::<Commit>().is_ok());
/// assert!("main".parse::<Commit>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Commit(String);

impl Commit {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in base64, without padding: 27 or 43 characters.
    pub fn in_base64(&self) -> String {
        URL_SAFE_NO_PAD.encode(hex::decode(&self.0).unwrap_or_default())
    }

    /// Parses [`Commit::in_base64`].
    ///
    /// # Errors
    ///
    /// [`InvalidCommit`] if it is another text.
    pub fn from_base64(text: &str) -> Result<Self, InvalidCommit> {
        hex::encode(URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCommit)?).parse()
    }
}

/// The text is no full commit id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a commit id has 40 or 64 lower case hexadecimal digits")]
pub struct InvalidCommit;

impl FromStr for Commit {
    type Err = InvalidCommit;
    fn from_str(text: &str) -> Result<Self, InvalidCommit> {
        let is_hexadecimal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if matches!(text.len(), 40 | 64) && text.bytes().all(is_hexadecimal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidCommit)
        }
    }
}

impl TryFrom<String> for Commit {
    type Error = InvalidCommit;
    fn try_from(text: String) -> Result<Self, InvalidCommit> {
        text.parse()
    }
}

impl From<Commit> for String {
    fn from(commit: Commit) -> Self {
        commit.0
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
