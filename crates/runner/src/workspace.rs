//! The job's folder, and the files in it.
//!
//! ```text
//! module/                 the source; OpenTofu runs in it, or in its subdirectory
//!   zz_canyon_backend_override.tf.json
//!   canyon.auto.tfvars.json
//! data/                   TF_DATA_DIR
//! tmp/                    TMPDIR
//! log.txt                 the log that people read, byte for byte as it is shipped
//! events.jsonl            OpenTofu's `-json` lines, as they are shipped, except for the masked secrets
//! offsets.json            the offsets in the shipped streams at which the two files begin
//! output.jsonl            only if the log is encrypted: the complete output of OpenTofu
//! stderr.txt              OpenTofu's standard error
//! plan.bin                the plan
//! identity/               the job's tokens for clouds
//! git/                    the job's keys for git, until the module is initialized
//! ```

use canyon_api::attempt::Offsets;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Inputs;
use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The log that people read. If the runner dies, the launcher ships the rest of it.
pub const LOG: &str = "log.txt";
/// OpenTofu's `-json` lines. If the runner dies, the launcher ships the rest of them, and finds orphans in them.
pub const EVENTS: &str = "events.jsonl";
/// [`Offsets`] as JSON: the offsets of byte 0 of [`LOG`] and [`EVENTS`] in the shipped streams.
pub const OFFSETS: &str = "offsets.json";
/// The complete output of OpenTofu, if [`EVENTS`] must not have it.
pub const OUTPUT: &str = "output.jsonl";
/// OpenTofu's standard error.
pub const ERRORS: &str = "stderr.txt";
/// The plan.
pub const PLAN: &str = "plan.bin";
/// The inputs, in the module's folder.
const INPUTS: &str = "canyon.auto.tfvars.json";
/// The backend, in the module's folder.
///
/// A block `backend` in an override file replaces a `backend` or `cloud` block of the module
/// (<https://opentofu.org/docs/language/files/override>, tried with OpenTofu 1.12 and Terraform
/// 1.11). Override files are merged in the order of their names, so this one must be the last.
pub const BACKEND: &str = "zz_canyon_backend_override.tf.json";

/// Files that a module must not bring, because the state belongs in the runner's storage. OpenTofu would offer to
/// migrate `terraform.tfstate` there, and Canyon would push `errored.tfstate`.
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
    /// Uses the folder `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The path of the file or folder `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The folder of the source.
    pub fn source(&self) -> PathBuf {
        self.path("module")
    }

    /// `TF_DATA_DIR`: outside of the module's folder, so that the module cannot bring its own.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The folder of the job's tokens for clouds.
    pub fn identity(&self) -> PathBuf {
        self.path("identity")
    }

    /// The folder of the job's keys for git.
    pub fn git(&self) -> PathBuf {
        self.path("git")
    }

    /// `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    /// Makes the folders, and writes the offsets of the streams.
    ///
    /// # Errors
    ///
    /// When a folder or the file cannot be written.
    pub fn prepare(&self, offsets: Offsets) -> io::Result<()> {
        for folder in [self.source(), self.temporary()] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        write_new(&self.path(OFFSETS), &serde_json::to_vec(&offsets)?)
    }

    /// Opens `name` to append to it. A module may have put something else in its place: a link, which would give OpenTofu
    /// a file of this process such as its output; or a pipe without a reader. Both are refused.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or is a link or a pipe.
    pub fn append(&self, name: &str) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(flags);
        let file = options.open(self.path(name))?;
        // The flag `NONBLOCK` is only for the open call. OpenTofu gets the file as its output, without the flag.
        fcntl_setfl(&file, OFlags::APPEND)?;
        Ok(file)
    }

    /// Appends a line. What is there may end within a line: the process that wrote it may have been killed.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn append_line(&self, name: &str, line: &str) -> io::Result<()> {
        let mut file = self.append(name)?;
        let ends_with = |file: &File| {
            let (mut last, length) = ([b'\n'], file.metadata()?.len());
            File::open(self.path(name))?.read_at(&mut last, length.saturating_sub(1))?;
            Ok::<_, io::Error>(last[0])
        };
        let begin = if ends_with(&file)? == b'\n' { "" } else { "\n" };
        file.write_all(format!("{begin}{line}\n").as_bytes())
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
    let message =
        format!("cannot write into the job's folder: {error}; check that its disk is not full");
    Failure::new(FailureClass::Config, message)
}

/// What [`write_module_files`] has done.
#[derive(Debug)]
pub struct ModuleFiles {
    /// The names of the files that were removed from the module's folder.
    pub removed: Vec<&'static str>,
    /// The name of the file with the inputs.
    pub inputs: String,
}

/// Writes backend and inputs into the module's folder.
///
/// # Errors
///
/// A [`Failure`] of class `user` if the folder has no module, or a file of the module would override the backend; of
/// class `config` if a file cannot be written.
pub fn write_module_files(
    module: &Path,
    backend: &Value,
    inputs: &Inputs,
) -> Result<ModuleFiles, Failure> {
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
    let name = inputs_file(&names);
    write(&name, serde_json::to_vec(inputs).map_err(io::Error::from).map_err(unusable)?)?;
    Ok(ModuleFiles { removed, inputs: name })
}

/// A name for the file of the inputs that sorts after every file of its kind in the module: of these, OpenTofu takes the
/// value of the last one, and an apply compares it with that of the plan.
fn inputs_file(names: &[String]) -> String {
    let is_automatic =
        |name: &&String| name.ends_with(".auto.tfvars") || name.ends_with(".auto.tfvars.json");
    let last = names.iter().filter(is_automatic).max();
    match last.filter(|last| last.as_str() > INPUTS) {
        Some(last) => format!("{last}.{INPUTS}"),
        None => INPUTS.to_owned(),
    }
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
                "rename `{name}`: an override file must not sort after {BACKEND}, which has the runner's state storage"
            ),
        )),
        None => Ok(()),
    }
}

/// Writes a file that only its owner may read. An existing file or link at `path` is removed first.
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
        write_module_files(folder.path(), &json!({}), &Inputs::new()).map(|files| files.removed)
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
    fn an_override_file_of_the_module_cannot_come_after_the_backend() {
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
    fn a_link_or_a_pipe_in_place_of_a_file_is_not_appended_to() {
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

    #[test]
    fn the_inputs_are_the_last_of_the_automatic_variable_files() {
        let of = |names: &[&str]| {
            inputs_file(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["main.tf", "zz.tfvars", "a.auto.tfvars"]), INPUTS);
        for later in ["d.auto.tfvars", "zzz.auto.tfvars.json", "~.auto.tfvars"] {
            let name = of(&["main.tf", "a.auto.tfvars", later]);
            assert!(name.as_str() > later && name.ends_with(".auto.tfvars.json"), "{name}");
        }
    }
}
