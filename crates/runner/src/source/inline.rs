//! A module whose source is the text of one file.

use super::SourceError;
use std::path::Path;

/// Writes `code` as `main.tf`.
///
/// # Errors
///
/// [`SourceError::Disk`] when the file cannot be written.
pub fn write(folder: &Path, code: &str) -> Result<(), SourceError> {
    std::fs::write(folder.join("main.tf"), code).map_err(SourceError::disk("write main.tf"))
}
