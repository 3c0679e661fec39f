//! A module that is the text of one file.

use super::SourceError;
use std::path::Path;

/// Writes `code` as `main.tf`.
///
/// # Errors
///
/// [`SourceError::Disk`].
pub fn write(folder: &Path, code: &str) -> Result<(), SourceError> {
    std::fs::write(folder.join("main.tf"), code).map_err(SourceError::disk("write main.tf"))
}
