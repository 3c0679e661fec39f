//! A token in a file that the platform renews. The file is read at each use.

use super::SignInError;
use super::source::MAX_LENGTH;
use secrecy::SecretString;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

/// The file with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    /// The path of the file.
    pub path: PathBuf,
}

impl TokenFile {
    pub(super) fn token(&self) -> Result<SecretString, SignInError> {
        let failed =
            |reason: String| SignInError(format!("the file `{}`: {reason}", self.path.display()));
        let mut text = String::new();
        let limit = u64::try_from(MAX_LENGTH).unwrap_or(u64::MAX) + 1;
        File::open(&self.path)
            .and_then(|file| file.take(limit).read_to_string(&mut text))
            .map_err(|error| failed(error.to_string()))?;
        if text.len() > MAX_LENGTH {
            return Err(failed("it is too long for a token".to_owned()));
        }
        Ok(text.trim().to_owned().into())
    }
}
