//! The files by which the program of a container job gets its task and answers: `container/` in the job's folder.
//!
//! ```text
//! inputs.json          RESOURCE_INPUTS_FILE
//! outputs.json         OUTPUTS_FILE
//! secret-outputs.json  SECRET_OUTPUTS_FILE
//! error.txt            ERROR_FILE
//! ```

use crate::environment::{Variables, set};
use crate::log::Log;
use crate::workspace::Workspace;
use canyon_domain::container::ContainerJob;
use canyon_domain::container::results::{
    MAX_ERROR, MAX_OUTPUTS, OutputsFile, RefusedOutputs, Results, check_size, error_text,
};
use canyon_domain::deployment::Mode;
use canyon_domain::job::Job;
use rustix::fs::{CWD, Mode as Permissions, OFlags, openat};
use std::fs::{self, File, FileType};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;

const INPUTS: &str = "inputs.json";
const OUTPUTS: &str = "outputs.json";
const SECRET_OUTPUTS: &str = "secret-outputs.json";
const ERROR: &str = "error.txt";

/// What of `ERROR_FILE` is read: more than is shown, because a mask does not recognize the part of a secret that is left where
/// a text is cut.
const READ_OF_ERROR: u64 = 2 * MAX_ERROR as u64;

/// The folder of the files.
#[derive(Debug)]
pub(super) struct Contract {
    folder: PathBuf,
    /// The same folder, whatever the program puts in its place.
    opened: OwnedFd,
}

/// Why a file of the program is not read.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("is {0} and no regular file")]
    Irregular(&'static str),
    #[error("cannot be read: {0}")]
    Failed(#[from] io::Error),
}

impl Contract {
    /// Makes the folder, and writes the inputs of `job`.
    ///
    /// # Errors
    ///
    /// When the job's folder cannot be written.
    pub(super) fn prepare(workspace: &Workspace, job: &ContainerJob) -> io::Result<Self> {
        let folder = workspace.path("container");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(&folder)?,
        }
        // The program may go on as another user than it was started as.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777))?;
        let inputs = job.inputs.clone().unwrap_or_default();
        let path = folder.join(INPUTS);
        fs::write(&path, serde_json::to_vec(&inputs)?)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, &folder, flags, Permissions::empty())?;
        Ok(Self { folder, opened })
    }

    /// The variables of the contract.
    pub(super) fn variables(&self, action: &str, job: &ContainerJob) -> Variables {
        let path = |name: &str| self.folder.join(name).into_os_string();
        vec![
            set("ACTION", action.as_ref()),
            set("SCRIPTS_DIRECTORY", job.shared_directory().as_ref()),
            set("RESOURCE_INPUTS_FILE", &path(INPUTS)),
            set("OUTPUTS_FILE", &path(OUTPUTS)),
            set("SECRET_OUTPUTS_FILE", &path(SECRET_OUTPUTS)),
            set("ERROR_FILE", &path(ERROR)),
        ]
    }

    /// The outputs that the program has left.
    ///
    /// # Errors
    ///
    /// The first file that cannot be used.
    pub(super) fn outputs(&self) -> Result<Results, RefusedOutputs> {
        let open = self.outputs_file(OUTPUTS, OutputsFile::Open)?;
        let secret = self.outputs_file(SECRET_OUTPUTS, OutputsFile::Secret)?;
        Results::parse(open.as_deref(), secret.as_deref())
    }

    fn outputs_file(
        &self,
        name: &str,
        which: OutputsFile,
    ) -> Result<Option<Vec<u8>>, RefusedOutputs> {
        let unread =
            |unread: Unread| RefusedOutputs::Invalid(format!("{} {unread}", which.variable()));
        let Some((file, length)) = self.open(name).map_err(unread)? else { return Ok(None) };
        check_size(which, length)?;
        let mut content = Vec::new();
        // A byte more than is allowed shows that the file still grows.
        let read = file.take(MAX_OUTPUTS as u64 + 1).read_to_end(&mut content);
        read.map_err(|error| unread(error.into()))?;
        Ok(Some(content))
    }

    /// What the program has written about its failure, as the log shows it.
    pub(super) fn error(&self, log: &Log) -> Option<String> {
        let read = || -> Result<Option<Vec<u8>>, Unread> {
            let Some((mut file, length)) = self.open(ERROR)? else { return Ok(None) };
            file.seek(SeekFrom::Start(length.saturating_sub(READ_OF_ERROR)))?;
            let mut content = Vec::new();
            file.take(READ_OF_ERROR).read_to_end(&mut content)?;
            Ok(Some(content))
        };
        let text = match read() {
            Ok(content) => error_text(log.shown(&String::from_utf8_lossy(&content?)).as_bytes()),
            Err(unread) => format!("ERROR_FILE {unread}"),
        };
        (!text.is_empty()).then_some(text)
    }

    /// Opens the file `name` with its length, if it exists. Neither a link nor a pipe without a writer can be opened so.
    fn open(&self, name: &str) -> Result<Option<(File, u64)>, Unread> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.opened, name, flags, Permissions::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => return Err(Unread::Irregular("a link")),
            Err(rustix::io::Errno::NXIO) => return Err(Unread::Irregular("a socket")),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let found = file.metadata()?;
        match kind(found.file_type()) {
            None => Ok(Some((file, found.len()))),
            Some(kind) => Err(Unread::Irregular(kind)),
        }
    }
}

/// What a file is that is not regular.
fn kind(of: FileType) -> Option<&'static str> {
    match of {
        of if of.is_file() => None,
        of if of.is_dir() => Some("a folder"),
        of if of.is_fifo() => Some("a FIFO"),
        _ => Some("a device"),
    }
}

/// What the program is to do.
pub(super) fn action(of: &Job) -> &'static str {
    match of.mode {
        Mode::Drift => "check",
        _ if of.plan_only => "check",
        Mode::Destroy => "destroy",
        Mode::Deploy | Mode::Rollback | Mode::State => "create",
    }
}
