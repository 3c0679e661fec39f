//! SQLite's write-ahead log, beside the database file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The log of an open database, for waiting until the disk has its content.
///
/// SQLite has its locks on other files (`-shm` and the database), so Canyon may open and close the log beside SQLite's own
/// descriptor (<https://sqlite.org/howtocorrupt.html>, 2.2). SQLite deletes the log only with its last connection.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens the log of the database `path`, which SQLite has open in WAL mode.
    ///
    /// # Errors
    ///
    /// The system's, also if there is no log: then SQLite does not write one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = Self::beside(path)?;
        Ok(Self { file: File::open(&path)?, path })
    }

    /// Whether a process that was killed has left a log.
    pub(super) fn is_left_beside(path: &Path) -> io::Result<bool> {
        Self::beside(path)?.try_exists()
    }

    /// SQLite follows symbolic links to the database, and keeps the log beside the target.
    fn beside(path: &Path) -> io::Result<PathBuf> {
        let mut log = path.canonicalize()?.into_os_string();
        log.push("-wal");
        Ok(log.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns when the disk has everything that SQLite wrote to the log.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot write the log to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
