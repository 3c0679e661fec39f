//! SQLite's write-ahead log, beside the database file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The log of a database, opened for waiting until it is on the disk.
///
/// SQLite has its locks on other files (`-shm` and the database), so it may be opened and closed here beside SQLite's own
/// descriptor (<https://sqlite.org/howtocorrupt.html>, 2.2). SQLite deletes the log only with its last connection.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
}

impl LogFile {
    /// The log of the database `path`.
    pub(super) fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self { path: log.into(), file: None }
    }

    /// Returns when all that was written to the log is on the disk. Without a log, nothing was written.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot be opened or written to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}
