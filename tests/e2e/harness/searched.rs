//! Searches files for what must not be in them.

use std::fs;
use std::path::Path;

/// Searches every file below `folder` for `parts`, and returns how many there are.
///
/// # Panics
///
/// If one contains a part.
pub(crate) fn files_without(parts: &[&str], folder: &Path) -> u32 {
    let mut searched = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            searched += files_without(parts, &path);
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            let has = |part: &&&str| bytes.windows(part.len()).any(|at| at == part.as_bytes());
            assert_eq!(parts.iter().find(has), None, "in {}", path.display());
            searched += 1;
        }
    }
    searched
}
