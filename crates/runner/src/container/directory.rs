//! The shared directory of a container job: the folder that its program starts in, with its files.

use canyon_domain::container::{ContainerJob, JobFile};
use canyon_domain::failure::{Failure, FailureClass};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Permissions of the folders.
const FOLDER: Mode = Mode::from_raw_mode(0o755);

/// Makes the shared directory of `job`.
///
/// # Errors
///
/// A [`Failure`] of class `config` that names the folder.
pub(super) fn create(job: &ContainerJob) -> Result<(), Failure> {
    let directory = job.shared_directory();
    std::fs::create_dir_all(directory).and_then(|()| Ok(open(directory)?)).map(drop).map_err(|error| {
        config(format!(
            "the shared directory {directory} cannot be made: {error}; mount a folder there that the image's user may write \
             to, or leave `shared_directory` out"
        ))
    })
}

/// The folder `path` below the shared directory of `job`, which it makes. No link on the path is followed.
///
/// # Errors
///
/// A [`Failure`] of class `config` that names the folder.
pub(super) fn subfolder_of(job: &ContainerJob, path: Option<&str>) -> Result<PathBuf, Failure> {
    let directory = Path::new(job.shared_directory());
    let Some(path) = path else { return Ok(directory.to_owned()) };
    let make = || -> io::Result<()> {
        let mut folder = open(job.shared_directory())?;
        for part in path.split('/') {
            folder = subfolder(&folder, part)?;
        }
        Ok(())
    };
    make().map_err(|error| {
        config(format!("the folder `{path}` cannot be made in {}: {error}", directory.display()))
    })?;
    Ok(directory.join(path))
}

/// Writes the files of `job` into its shared directory.
///
/// # Errors
///
/// A [`Failure`] of class `config` that names the file.
pub(super) fn write_files(job: &ContainerJob) -> Result<(), Failure> {
    let directory = job.shared_directory();
    for (path, file) in job.files() {
        let written = open(directory).map_err(io::Error::from);
        let written = written.and_then(|directory| write(&directory, &path, &file));
        written.map_err(|error| {
            config(format!("the file `{path}` cannot be written into {directory}: {error}"))
        })?;
    }
    Ok(())
}

fn config(message: String) -> Failure {
    Failure::new(FailureClass::Config, message)
}

fn open(directory: &str) -> rustix::io::Result<OwnedFd> {
    openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Writes a file below `directory`, in place of any other. No link on its path is followed.
fn write(directory: &OwnedFd, path: &str, file: &JobFile) -> io::Result<()> {
    let (folders, name) = path.rsplit_once('/').map_or((None, path), |(a, b)| (Some(a), b));
    let mut folder = directory.try_clone()?;
    for part in folders.iter().flat_map(|folders| folders.split('/')) {
        folder = subfolder(&folder, part)?;
    }
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(Errno::ISDIR) => return Err(io::Error::other("there is a folder of that name")),
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut opened = File::from(openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    opened.write_all(&file.content)?;
    // Not when it is created, because the process's mask would take permissions away.
    Ok(fchmod(&opened, Mode::from_raw_mode(file.mode))?)
}

fn subfolder(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, FOLDER) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => io::Error::other(format!("`{name}` there is no folder")),
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn prepare_in(folder: &Path, files: &serde_json::Value) -> Result<(), String> {
        let job = json!({
            "image": "a/b:1", "command": ["/x"], "shared_directory": folder, "files": files,
        });
        let job = ContainerJob::parse(job).unwrap();
        create(&job).and_then(|()| write_files(&job)).map_err(|failure| failure.message)
    }

    #[test]
    fn files_have_their_modes_and_replace_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        let shared = home.path().join("a/shared");
        fs::create_dir_all(&shared).unwrap();
        fs::write(shared.join("old"), "old").unwrap();
        let files = json!({
            "old": "new", "deep/er/run.sh": {"content": "#!/bin/sh\n", "mode": "0777"},
            "deep/bytes": {"content": "/w==", "encoding": "base64", "mode": "0400"},
        });
        for _ in 0..2 {
            prepare_in(&shared, &files).unwrap();
        }
        let mode =
            |name: &str| fs::metadata(shared.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(fs::read(shared.join("deep/bytes")).unwrap(), [0xff]);
        assert_eq!(fs::read_to_string(shared.join("old")).unwrap(), "new");
        assert_eq!(
            (mode("old"), mode("deep/bytes"), mode("deep/er/run.sh")),
            (0o644, 0o400, 0o777)
        );
    }

    #[test]
    fn no_link_is_followed_out_of_the_shared_directory() {
        let home = tempfile::tempdir().unwrap();
        let (shared, outside) = (home.path().join("shared"), home.path().join("outside"));
        fs::create_dir_all(&shared).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "mine").unwrap();
        symlink(&outside, shared.join("link")).unwrap();
        symlink(outside.join("file"), shared.join("file")).unwrap();
        let message = prepare_in(&shared, &json!({"link/file": "x"})).unwrap_err();
        let expected = "the file `link/file` cannot be written into";
        assert!(message.starts_with(expected) && message.ends_with("`link` there is no folder"));
        prepare_in(&shared, &json!({"file": "x"})).unwrap();
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(shared.join("file")).unwrap(), "x");
        fs::create_dir(shared.join("folder")).unwrap();
        let message = prepare_in(&shared, &json!({"folder": "x"})).unwrap_err();
        assert!(message.ends_with("there is a folder of that name"), "{message}");
    }

    #[test]
    fn a_shared_directory_that_cannot_be_made_is_named() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        let shared = home.path().join("file/shared");
        let message = prepare_in(&shared, &json!({})).unwrap_err();
        let begin = format!("the shared directory {} cannot be made: ", shared.display());
        assert!(message.starts_with(&begin), "{message}");
    }
}
