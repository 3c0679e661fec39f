//! The database file: readable by its owner alone, and open in one process at a time.

use crate::StoreError;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a start waits for the lock. A process that is killed while it starts another leaves
/// the lock to that one until it has become its own program, some milliseconds on a busy machine;
/// whoever restarts the killed one at once must not fail for that.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// A database file that is ours until this value is dropped.
#[derive(Debug)]
pub(super) struct DataFile {
    path: PathBuf,
    /// An advisory lock that the kernel lets go of when the process ends, however it ends. It is
    /// on a file of its own, as SQLite has locks on the database file, and closing any other
    /// handle of that file would drop them (<https://sqlite.org/howtocorrupt.html>, 2.2).
    _lock: File,
}

impl DataFile {
    /// Creates what is missing and takes the lock.
    ///
    /// SQLite itself would let a second process in. That one would not hear of the writes of the
    /// first, and two launchers would look after the same deployments.
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
        let give_up = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => sleep(PAUSE),
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
    // A file that was there before may have been copied here with another mode.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
