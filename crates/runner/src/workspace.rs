//! The job's folder, and what lies in it.
//!
//! ```text
//! module/                 the source; OpenTofu runs in it, or in its subdirectory
//!   zz_canyon_backend_override.tf.json
//!   canyon.auto.tfvars.json
//! data/                   TF_DATA_DIR
//! tmp/                    TMPDIR
//! log.txt                 the log that people read, byte for byte as it is shipped
//! events.jsonl            OpenTofu's `-json` lines, as they are shipped but for masked secrets
//! offsets.json            where in the shipped streams the two files begin
//! output.jsonl            only when the log is encrypted: what OpenTofu really said
//! stderr.txt              OpenTofu's standard error
//! plan.bin                the plan
//! identity/               the job's tokens for clouds
//! ```

use canyon_api::attempt::Offsets;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Inputs;
use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The log that people read. The launcher ships the rest of it when the runner could not.
pub const LOG: &str = "log.txt";
/// OpenTofu's `-json` lines. The launcher ships the rest of them too, and finds orphans in them.
pub const EVENTS: &str = "events.jsonl";
/// [`Offsets`] as JSON: byte 0 of [`LOG`] and [`EVENTS`] has this offset in the shipped stream.
pub const OFFSETS: &str = "offsets.json";
/// What OpenTofu really said, when [`EVENTS`] must not hold it.
pub const OUTPUT: &str = "output.jsonl";
/// OpenTofu's standard error.
pub const ERRORS: &str = "stderr.txt";
/// The plan.
pub const PLAN: &str = "plan.bin";
/// The inputs, in the module's folder.
pub const INPUTS: &str = "canyon.auto.tfvars.json";
/// The backend, in the module's folder.
///
/// A block `backend` in an override file replaces a `backend` or `cloud` block of the module
/// (<https://opentofu.org/docs/language/files/override>, tried with OpenTofu 1.12 and Terraform
/// 1.11). Override files are merged in the order of their names, so this one must be the last.
pub const BACKEND: &str = "zz_canyon_backend_override.tf.json";

/// What a module must not bring: the state belongs to the runner's storage. OpenTofu would offer to
/// move `terraform.tfstate` there, and Canyon would push `errored.tfstate`.
const STALE: [&str; 6] = [
    ".terraform",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "terraform.tfstate.d",
    ".terraform.tfstate.lock.info",
    "errored.tfstate",
];

/// The job's folder.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The job's folder is `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The file or folder `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where the source goes.
    pub fn source(&self) -> PathBuf {
        self.path("module")
    }

    /// `TF_DATA_DIR`: beside the module, so that it cannot bring its own.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The job's tokens for clouds.
    pub fn identity(&self) -> PathBuf {
        self.path("identity")
    }

    /// `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    /// Makes the folders, and says where the streams begin.
    ///
    /// # Errors
    ///
    /// As the file system says.
    pub fn prepare(&self, offsets: Offsets) -> io::Result<()> {
        for folder in [self.source(), self.temporary()] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        write_new(&self.path(OFFSETS), &serde_json::to_vec(&offsets)?)
    }

    /// Opens `name` to append to it. A module may have put something else in its place: a link, through
    /// which OpenTofu would get a file of this process's own, such as its output, or a pipe without a reader.
    ///
    /// # Errors
    ///
    /// As the file system says.
    pub fn append(&self, name: &str) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(flags);
        let file = options.open(self.path(name))?;
        // The flag is for the opening alone, and not for OpenTofu, which gets the file as its output.
        fcntl_setfl(&file, OFlags::APPEND)?;
        Ok(file)
    }
}

/// Writes another backend into the module's folder, for the steps that follow.
///
/// # Errors
///
/// A [`Failure`] of class `config` when the file cannot be written.
pub fn write_backend(module: &Path, backend: &Value) -> Result<(), Failure> {
    let write = || write_new(&module.join(BACKEND), &serde_json::to_vec(backend)?);
    write().map_err(|error| unusable(&error))
}

fn unusable(error: &io::Error) -> Failure {
    let message = format!("cannot write into the job's folder: {error}; has its disk room?");
    Failure::new(FailureClass::Config, message)
}

/// Writes backend and inputs into the module's folder. Returns what was removed from there.
///
/// # Errors
///
/// A [`Failure`] of class `user` when the module is none, or would override the backend.
pub fn write_module_files(
    module: &Path,
    backend: &Value,
    inputs: &Inputs,
) -> Result<Vec<&'static str>, Failure> {
    let unusable = |error: io::Error| unusable(&error);
    let names = file_names(module).map_err(unusable)?;
    check_names(&names)?;
    let mut removed = Vec::new();
    for name in STALE {
        let path = module.join(name);
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .map_err(unusable)?;
        removed.push(name);
    }
    let write =
        |name: &str, content: Vec<u8>| write_new(&module.join(name), &content).map_err(unusable);
    write(BACKEND, serde_json::to_vec(backend).map_err(io::Error::from).map_err(unusable)?)?;
    write(INPUTS, serde_json::to_vec(inputs).map_err(io::Error::from).map_err(unusable)?)?;
    Ok(removed)
}

fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    const SUFFIXES: [&str; 4] = [".tf", ".tofu", ".tf.json", ".tofu.json"];
    let stem = |name: &str| {
        SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned)
    };
    if !names.iter().any(|name| stem(name).is_some()) {
        let seen = if names.is_empty() { "the folder is empty" } else { "it has other files only" };
        return Err(Failure::new(
            FailureClass::User,
            format!(
                "the source has no *.tf, *.tofu or *.tf.json file: {seen}; name the module's folder after `//`"
            ),
        ));
    }
    let later = names.iter().find(|name| {
        stem(name).is_some_and(|stem| stem == "override" || stem.ends_with("_override"))
            && name.as_str() >= BACKEND
    });
    match later {
        Some(name) => Err(Failure::new(
            FailureClass::User,
            format!(
                "rename `{name}`: an override file must not sort after {BACKEND}, which holds the runner's state storage"
            ),
        )),
        None => Ok(()),
    }
}

/// Writes a file that only its owner may read, and never through a link that lies there.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn write(files: &[&str]) -> Result<Vec<&'static str>, Failure> {
        let folder = tempfile::tempdir().unwrap();
        for name in files {
            fs::write(folder.path().join(name), "").unwrap();
        }
        write_module_files(folder.path(), &json!({}), &Inputs::new())
    }

    #[test]
    fn a_source_without_configuration_is_refused() {
        for files in [&[][..], &["README.md", "x.tfvars", "a.tf.bak", "b.json"]] {
            assert_eq!(write(files).unwrap_err().class, FailureClass::User, "{files:?}");
        }
        for name in ["main.tf", "main.tf.json", "main.tofu", "main.tofu.json"] {
            write(&[name]).unwrap();
        }
    }

    #[test]
    fn no_override_file_of_the_module_comes_after_the_backend() {
        let late = [
            "zz_canyon_backend_override.tf.json",
            "zz_canyon_backend_override.tofu.json",
            "zzz_override.tf",
            "é_override.tf.json",
        ];
        for name in late {
            assert!(write(&["main.tf", name]).is_err(), "{name}");
        }
        write(&["main.tf", "override.tf", "dev_override.tf", "zzz.tf"]).unwrap();
    }

    #[test]
    fn state_that_a_module_brings_is_removed() {
        let removed = write(&["main.tf", "terraform.tfstate", "errored.tfstate"]).unwrap();
        assert_eq!(removed, ["terraform.tfstate", "errored.tfstate"]);
    }

    #[test]
    fn nothing_is_appended_through_what_a_module_puts_in_a_files_place() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned());
        workspace.append(EVENTS).unwrap().write_all(b"1").unwrap();
        workspace.append(EVENTS).unwrap().write_all(b"2").unwrap();
        assert_eq!(fs::read(workspace.path(EVENTS)).unwrap(), b"12");
        std::os::unix::fs::symlink("/proc/self/fd/1", workspace.path(LOG)).unwrap();
        assert!(workspace.append(LOG).is_err());
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, workspace.path(OUTPUT), kind, mode, 0).unwrap();
        assert!(workspace.append(OUTPUT).is_err(), "it does not wait for a reader");
    }

    #[test]
    fn the_files_are_not_written_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(folder.path().join("main.tf"), "").unwrap();
        for name in [INPUTS, "terraform.tfstate"] {
            std::os::unix::fs::symlink(outside.path(), folder.path().join(name)).unwrap();
        }
        write_module_files(folder.path(), &json!({}), &Inputs::new()).unwrap();
        assert_eq!(fs::read(outside.path()).unwrap(), b"");
        assert!(outside.path().exists());
    }
}
