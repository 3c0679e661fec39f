//! The program of a container job, which is a part of its image or one of its files.

use super::environment::value;
use crate::environment::Variables;
use crate::settings::{USUAL_PATH, find_program};
use canyon_domain::container::ContainerJob;
use canyon_domain::failure::{Failure, FailureClass};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A program, ready to start.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    /// The words of the command, of which the first one is the program as the job names it.
    words: Vec<String>,
    directory: PathBuf,
    environment: Variables,
    /// Its image, for messages.
    image: String,
}

impl Program {
    /// Finds the program of the command `words` of `job` in this container.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `config`, if there is none.
    pub(super) fn find(
        words: Vec<String>,
        job: &ContainerJob,
        environment: Variables,
        image: &str,
    ) -> Result<Self, Failure> {
        let directory = PathBuf::from(job.shared_directory());
        let name = words.first().cloned().unwrap_or_default();
        let path = if name.contains('/') {
            // Whether a file in a folder without permissions exists, the kernel says when it is executed.
            let is_absent = |path: &PathBuf| {
                let found = path.symlink_metadata();
                found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            };
            Some(directory.join(&name)).filter(|path| !is_absent(path))
        } else {
            let search_path = value(&environment, "PATH").filter(|path| !path.is_empty());
            find_program(&name, search_path.unwrap_or(OsStr::new(USUAL_PATH)))
        };
        let missing = || {
            let place = if name.contains('/') { "" } else { " on the PATH" };
            failed(&format!("{name}: no such file{place} in {image}"))
        };
        let path = path.ok_or_else(missing)?;
        Ok(Self { path, words, directory, environment, image: image.to_owned() })
    }

    /// The program as the job names it.
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Starts the program in a process group of its own, with its output in pipes.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `config` that says why the kernel does not execute it.
    pub(super) fn start(&self) -> Result<Child, Failure> {
        let mut command = Command::new(&self.path);
        command
            .arg0(self.name())
            .args(self.words.iter().skip(1))
            .current_dir(&self.directory)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command.spawn().map_err(|error| {
            let (name, image) = (self.name(), &self.image);
            let reason = reason(&error, &self.path);
            failed(&format!("{name}: {reason} in {image}"))
        })
    }
}

fn failed(reason: &str) -> Failure {
    Failure::new(FailureClass::Config, format!("EXEC_FAILED: {reason}"))
}

fn reason(error: &io::Error, path: &Path) -> String {
    let metadata = path.metadata();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) if metadata.is_ok() => {
            "the program that it names in its first line, or its dynamic loader, does not exist".to_owned()
        }
        Some(Errno::NOENT) => "no such file".to_owned(),
        Some(Errno::ACCESS) => match metadata {
            Ok(found) if found.is_dir() => "a folder, and no program,".to_owned(),
            Ok(found) => format!(
                "permission denied; its mode {:04o} must let the image's user execute it",
                found.permissions().mode() & 0o7777
            ),
            Err(_) => "permission denied".to_owned(),
        },
        Some(Errno::NOEXEC) => {
            "no program for this platform: neither one of its architecture, nor a script with `#!` in its first line,"
                .to_owned()
        }
        _ => format!("cannot be started: {error},"),
    }
}
