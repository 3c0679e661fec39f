//! Searches files for what must not be in them.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long the folder of a job that has ended stays at most.
const LIMIT: Duration = Duration::from_mins(1);

/// Waits until the data of a server have no folder of a job. A search at the same time would miss files.
///
/// # Panics
///
/// If one stays.
pub(crate) fn until_no_job(data: &Path) {
    let begun = Instant::now();
    while fs::read_dir(data.join("jobs")).is_ok_and(|mut entries| entries.next().is_some()) {
        assert!(begun.elapsed() < LIMIT, "the folder of the job stays");
        thread::sleep(Duration::from_millis(50));
    }
}

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
