//! The database file: only its owner can read it, and one process at a time has it open.

use crate::StoreError;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a start waits for the lock. A process that is killed while it starts a child leaves the
/// lock to that child until the child has called `exec`, some milliseconds on a busy machine. A
/// restart right after the kill must not fail for that reason.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A database file that this process holds until the value is dropped.
#[derive(Debug)]
pub(super) struct DataFile {
    path: PathBuf,
    /// An advisory lock, which the kernel releases when the process ends, for any reason. It is on
    /// a file of its own: SQLite has locks on the database file, and to close any other handle of
    /// that file would release them (<https://sqlite.org/howtocorrupt.html>, 2.2).
    _lock: File,
}

impl DataFile {
    /// Creates missing files and takes the lock.
    ///
    /// SQLite itself would accept a second process. That process would not be notified of the
    /// writes of the first, and two launchers would reconcile the same deployments.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Open { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|source| failed(source.into()))?;
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = create_private(Path::new(&lock_path)).map_err(|e| failed(e.into()))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    sleep(LOCK_RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::InUse { path: path.to_owned() });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source.into())),
            }
        }
        // SQLite gives its `-wal` and `-shm` files the mode of the database file.
        create_private(path).map_err(|source| failed(source.into()))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn create_private(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    // An existing file may have been copied here with another mode.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
