//! `canyon-runner inject DIRECTORY [--git] [--temporary]`: fills the volume that a container job gets at `/canyon`.
//!
//! A container job runs in the user's image, which has neither the runner nor certificates. An init container with the
//! runner's image brings both:
//!
//! | path below DIRECTORY | mode | content |
//! |---|---|---|
//! | `bin/canyon-runner` | 0755 | this program, which is static |
//! | `bin/ca-certificates.crt` | 0644 | the certificates that this image trusts |
//! | `run` | 1777 | the working directory of the runner |
//! | `work` | 1777 | the shared directory of the user's program, unless the job names another |
//!
//! With `--git` also `git`, a copy of the image's `/canyon-git`: git with its loader and libraries, which runs in any image if it is
//! mounted at the same path ([`crate::source::git_program`]). With `--temporary` also `tmp`, with mode 1777: on platforms whose
//! empty volumes only root may write to, another volume is mounted there, which becomes the container's `/tmp`.
//!
//! The runner's image has the same tree at `/canyon`, for platforms that fill an empty volume from the image. The modes
//! let any user work there, because the user's image may run as another one than the init container.

use crate::source::git_program;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The command-line argument that starts the copy.
pub const ARGUMENT: &str = "inject";
const GIT: &str = "--git";
const TEMPORARY: &str = "--temporary";
/// The exit code if the directory cannot be filled (`EX_CANTCREAT` of sysexits.h).
pub const NOT_INJECTED: u8 = 73;
/// The exit code if the command line is wrong (`EX_USAGE`).
const USAGE: u8 = 64;

const PROGRAM: &str = "canyon-runner";
const CERTIFICATES: &str = "ca-certificates.crt";
/// The bundle that images derived from the runner's add their own authorities to.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The folder of the runner's image with the same files.
const OWN_BIN: &str = "/canyon/bin";

const FOLDER: u32 = 0o755;
const OPEN_FOLDER: u32 = 0o1777;
const PERMISSION_BITS: u32 = 0o7777;

/// A file or folder that could not be copied or made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`: {source}", path.display())]
pub struct InjectError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Copies the running program and the image's certificates into the directory that `arguments` name.
pub fn execute(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let directory = arguments.next();
    let options: Vec<_> = arguments.collect();
    let are_known = options.iter().all(|option| [GIT, TEMPORARY].contains(&option.as_str()));
    let Some(directory) = directory.filter(|_| are_known) else {
        complain("usage: canyon-runner inject DIRECTORY [--git] [--temporary]");
        return USAGE.into();
    };
    let directory = Path::new(&directory);
    let has = |wanted: &str| options.iter().any(|option| option == wanted);
    let injected = inject_itself(directory)
        .and_then(|()| if has(GIT) { copy_git(directory) } else { Ok(()) })
        .and_then(|()| if has(TEMPORARY) { open_temporary(directory) } else { Ok(()) });
    match injected {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("inject: {error}"));
            NOT_INJECTED.into()
        }
    }
}

#[expect(clippy::print_stderr, reason = "the platform reports it as the init container's message")]
fn complain(message: &str) {
    eprintln!("canyon-runner: {message}");
}

fn inject_itself(directory: &Path) -> Result<(), InjectError> {
    let program = std::env::current_exe().map_err(failed("find", Path::new(PROGRAM)))?;
    let beside = program.with_file_name(CERTIFICATES);
    let candidates = [PathBuf::from(BUNDLE), beside, Path::new(OWN_BIN).join(CERTIFICATES)];
    let certificates = candidates.iter().find(|path| path.is_file()).unwrap_or(&candidates[0]);
    inject(&program, certificates, directory)
}

/// Fills `directory`, which must exist. A repetition by the same user replaces the files.
///
/// # Errors
///
/// The first file or folder that cannot be read, made or replaced.
pub fn inject(program: &Path, certificates: &Path, directory: &Path) -> Result<(), InjectError> {
    let found = fs::metadata(directory).map_err(failed("fill", directory))?;
    if !found.is_dir() {
        return Err(failed("fill", directory)(ErrorKind::NotADirectory.into()));
    }
    let bin = directory.join("bin");
    make_folder(&bin, FOLDER)?;
    copy(program, &bin.join(PROGRAM), 0o755)?;
    copy(certificates, &bin.join(CERTIFICATES), 0o644)?;
    make_folder(&directory.join("run"), OPEN_FOLDER)?;
    make_folder(&directory.join("work"), OPEN_FOLDER)
}

fn copy_git(directory: &Path) -> Result<(), InjectError> {
    copy_tree(Path::new(git_program::TREE), &directory.join("git"))
}

fn open_temporary(directory: &Path) -> Result<(), InjectError> {
    make_folder(&directory.join("tmp"), OPEN_FOLDER)
}

/// Copies a folder with its files, folders and links.
fn copy_tree(from: &Path, to: &Path) -> Result<(), InjectError> {
    make_folder(to, FOLDER)?;
    for entry in fs::read_dir(from).map_err(failed("read", from))? {
        let entry = entry.map_err(failed("read", from))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(failed("read", &from))?;
        if kind.is_dir() {
            copy_tree(&from, &to)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&from).map_err(failed("read", &from))?;
            match symlink(target, &to) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(failed("make", &to)(error));
                }
                Ok(()) | Err(_) => {}
            }
        } else {
            let mode = entry.metadata().map_err(failed("read", &from))?.permissions().mode();
            copy(&from, &to, mode & PERMISSION_BITS)?;
        }
    }
    Ok(())
}

/// Makes a folder with this mode, whatever the process's umask. A folder that another user made is accepted if it has
/// the mode already.
fn make_folder(path: &Path, mode: u32) -> Result<(), InjectError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(failed("make", path)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(path).map_err(failed("read", path))?;
    if !found.is_dir() {
        return Err(failed("make", path)(ErrorKind::NotADirectory.into()));
    }
    if found.permissions().mode() & PERMISSION_BITS == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set the mode of", path))
}

/// Copies a file, as a whole or not at all: a program that runs cannot be overwritten, but replaced.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), InjectError> {
    let mut source = File::open(from).map_err(failed("read", from))?;
    let part = to.with_extension("part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(failed("replace", &part)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let mut write = || {
        let mut target = OpenOptions::new().write(true).create_new(true).open(&part)?;
        io::copy(&mut source, &mut target)?;
        target.set_permissions(Permissions::from_mode(mode))?;
        // The descriptor is closed before the rename: a program that is open for writing cannot be executed.
        drop(target);
        fs::rename(&part, to)
    };
    write().map_err(failed("write", to))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InjectError {
    let path = path.to_owned();
    move |source| InjectError { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    struct Volume(TempDir);

    impl Volume {
        fn with_sources() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("program"), "program").unwrap();
            fs::write(folder.path().join("bundle"), "certificates").unwrap();
            fs::create_dir(folder.path().join("canyon")).unwrap();
            Self(folder)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn inject(&self) -> Result<(), InjectError> {
            inject(&self.path("program"), &self.path("bundle"), &self.path("canyon"))
        }

        /// The tree with its modes and contents.
        fn tree(&self) -> Vec<(String, u32, Option<String>)> {
            let mut found = Vec::new();
            let mut folders = vec![self.path("canyon")];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    let mode = fs::metadata(&path).unwrap().permissions().mode() & PERMISSION_BITS;
                    let name = path.strip_prefix(self.path("canyon")).unwrap();
                    let content = path.is_file().then(|| fs::read_to_string(&path).unwrap());
                    found.push((name.to_str().unwrap().to_owned(), mode, content));
                    if path.is_dir() {
                        folders.push(path);
                    }
                }
            }
            found.sort();
            found
        }
    }

    fn expected(program: &str) -> Vec<(String, u32, Option<String>)> {
        [
            ("bin", 0o755, None),
            ("bin/ca-certificates.crt", 0o644, Some("certificates")),
            ("bin/canyon-runner", 0o755, Some(program)),
            ("run", 0o1777, None),
            ("work", 0o1777, None),
        ]
        .map(|(path, mode, content)| (path.to_owned(), mode, content.map(str::to_owned)))
        .to_vec()
    }

    #[test]
    fn the_volume_gets_the_program_the_certificates_and_two_open_folders() {
        let volume = Volume::with_sources();
        volume.inject().unwrap();
        assert_eq!(volume.tree(), expected("program"));
    }

    #[test]
    fn a_repetition_replaces_files_and_leaves_what_the_job_wrote() {
        let volume = Volume::with_sources();
        volume.inject().unwrap();
        let running = File::open(volume.path("canyon/bin/canyon-runner")).unwrap();
        fs::write(volume.path("canyon/work/notes"), "kept").unwrap();
        // A copy that was interrupted.
        fs::write(volume.path("canyon/bin/canyon-runner.part"), "half").unwrap();
        fs::write(volume.path("program"), "newer").unwrap();
        fs::set_permissions(volume.path("canyon/run"), Permissions::from_mode(0o700)).unwrap();
        volume.inject().unwrap();
        let mut tree = volume.tree();
        let notes = tree.pop().unwrap();
        assert_eq!((notes.0.as_str(), notes.2.as_deref()), ("work/notes", Some("kept")));
        assert_eq!(tree, expected("newer"));
        assert_eq!(io::read_to_string(running).unwrap(), "program", "the open file is untouched");
    }

    #[test]
    fn a_tree_is_copied_with_its_links_and_modes_and_once_more() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::write(from.join("bin/git"), "git").unwrap();
        fs::set_permissions(from.join("bin/git"), Permissions::from_mode(0o755)).unwrap();
        symlink("git", from.join("bin/link")).unwrap();
        for _ in 0..2 {
            copy_tree(&from, &to).unwrap();
        }
        let copied = fs::metadata(to.join("bin/git")).unwrap();
        assert_eq!(copied.permissions().mode() & PERMISSION_BITS, 0o755);
        assert_eq!(fs::read_to_string(to.join("bin/link")).unwrap(), "git");
        assert_eq!(fs::read_link(to.join("bin/link")).unwrap(), Path::new("git"));
        let message = copy_tree(&home.path().join("none"), &to).unwrap_err().to_string();
        assert!(message.starts_with("cannot read `") && message.contains("/none`"), "{message}");
    }

    #[test]
    fn a_folder_for_temporary_files_is_opened_for_every_user_if_it_is_asked_for() {
        let volume = Volume::with_sources();
        let directory = volume.path("canyon").to_str().unwrap().to_owned();
        let mode = |name: &str| {
            let found = fs::metadata(volume.path("canyon").join(name));
            found.ok().map(|found| found.permissions().mode() & PERMISSION_BITS)
        };
        let executed = |options: &[&str]| {
            let arguments = [directory.as_str()].into_iter().chain(options.iter().copied());
            let exit = execute(arguments.map(str::to_owned));
            format!("{exit:?}")
        };
        executed(&[]);
        assert_eq!(mode("tmp"), None);
        // As the root of another volume, which is mounted there.
        fs::create_dir(volume.path("canyon/tmp")).unwrap();
        assert_eq!(executed(&["--temporary"]), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(mode("tmp"), Some(OPEN_FOLDER));
        for wrong in [&["--other"][..], &["--git", "x"]] {
            assert_eq!(executed(wrong), format!("{:?}", ExitCode::from(USAGE)));
        }
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        type Change = fn(&Volume);
        let cases: [(Change, &str); 5] = [
            (|volume| fs::remove_dir(volume.path("canyon")).unwrap(), "cannot fill `DIR/canyon`"),
            (
                |volume| {
                    fs::remove_dir(volume.path("canyon")).unwrap();
                    fs::write(volume.path("canyon"), "").unwrap();
                },
                "cannot fill `DIR/canyon`: not a directory",
            ),
            (
                |volume| symlink("/tmp", volume.path("canyon/bin")).unwrap(),
                "cannot make `DIR/canyon/bin`: not a directory",
            ),
            (
                |volume| fs::write(volume.path("canyon/work"), "").unwrap(),
                "cannot make `DIR/canyon/work`: not a directory",
            ),
            (|volume| fs::remove_file(volume.path("bundle")).unwrap(), "cannot read `DIR/bundle`"),
        ];
        for (change, named) in cases {
            let volume = Volume::with_sources();
            change(&volume);
            let message = volume.inject().unwrap_err().to_string();
            let message = message.replace(volume.0.path().to_str().unwrap(), "DIR");
            assert!(message.starts_with(named), "{message}");
        }
    }
}
