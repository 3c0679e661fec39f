//! Keys in files, for `canyon local`. On AWS keys are in KMS.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or written.
    #[error("cannot use the key file `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Other users may read it.
    #[error("the key file `{}` may be read by others; run: chmod 600 {}", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// It does not contain a valid key.
    #[error("the key file `{}` is damaged; restore it from a backup: without it, everything that it sealed is lost", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// The key in the file at `path`, or a new one from `make`, which is then stored there with mode
/// 0600. If two processes create it at once, both use the one that was first.
///
/// # Errors
///
/// [`KeyFileError`] if it cannot be read or written, or other users may read it.
pub fn load_or_create(
    path: &Path,
    make: impl FnOnce() -> Vec<u8>,
) -> Result<Vec<u8>, KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    if let Some(key) = load(path)? {
        return Ok(key);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    // Written completely under another name and then linked, so that no reader sees half a key.
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let key = make();
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(&key).and_then(|()| file.sync_all()))
        .and_then(|()| match fs::hard_link(&draft, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        });
    let _ = fs::remove_file(&draft);
    written.map_err(io)?;
    load(path)?.ok_or_else(|| KeyFileError::Damaged { path: path.to_owned() })
}

fn load(path: &Path) -> Result<Option<Vec<u8>>, KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            Err(KeyFileError::Open { path: path.to_owned() })
        }
        Ok(_) => fs::read(path).map(Some).map_err(io),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_created_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys/master.key");
        let first = load_or_create(&path, || vec![1; 32]).unwrap();
        assert_eq!(load_or_create(&path, || vec![2; 32]).unwrap(), first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load_or_create(&path, Vec::new), Err(KeyFileError::Open { .. })));
    }
}
