//! Fetches the module's source into the job's folder.
//!
//! A source may be hostile: nothing in it may run, and nothing of it may be written, or point, outside of the
//! source's folder.

pub mod archive;
pub mod bundle;
mod fetch_program;
pub mod git;
mod git_failure;
pub mod git_program;
pub mod inline;
pub mod links;
pub mod oci;

use crate::{git_access::GitAccess, log::Log, session::ApiConnection, settings::Settings};
use canyon_domain::commit::Commit;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Module;
use canyon_domain::module_source::ModuleSource;
use git_program::GitProgram;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why the source could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The module's author must act.
    #[error("{0}")]
    Refused(String),
    /// An administrator must act: the runner, its image or its machine is at fault.
    #[error("{0}")]
    Unusable(String),
    /// A service or the network did not answer: another attempt may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The file system returned an error.
    #[error("cannot {what}: {source}; check that the job's disk is not full")]
    Disk {
        /// What was tried.
        what: &'static str,
        /// The error of the file system.
        source: io::Error,
    },
}

impl SourceError {
    /// Makes the closure for `map_err` that turns an error of the file system into [`SourceError::Disk`].
    pub(crate) fn disk(what: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Disk { what, source }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let class = match &error {
            SourceError::Refused(_) => FailureClass::User,
            SourceError::Unreachable(_) => FailureClass::Unreachable,
            SourceError::Unusable(_) | SourceError::Disk { .. } => FailureClass::Config,
        };
        Self::new(class, error.to_string())
    }
}

/// A module that was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The folder in which to run.
    pub folder: PathBuf,
    /// The commit, if the source is a git repository; the digest, if it is a package in an OCI registry.
    pub commit: Option<Commit>,
}

/// Fetches `module` into `folder`.
///
/// # Errors
///
/// [`SourceError`]: the source cannot be fetched, breaks a rule, or has no such subdirectory.
pub async fn fetch(
    module: &Module,
    folder: &Path,
    api: &ApiConnection,
    settings: &Settings,
    access: &GitAccess,
    tools: Option<&oci::Tools>,
    log: &mut Log,
) -> Result<Fetched, SourceError> {
    let mut commit = None;
    let subdirectory = match (&module.source, &module.source_code) {
        (ModuleSource::Inline, Some(code)) => {
            inline::write(folder, code)?;
            None
        }
        (ModuleSource::Inline, None) => {
            unpack(api, folder, None, log).await?;
            None
        }
        (ModuleSource::Archive { digest, subdirectory }, _) => {
            unpack(api, folder, Some(digest.as_str()), log).await?;
            subdirectory.as_deref()
        }
        (ModuleSource::Git(source), _) => {
            let program = GitProgram::installed(settings)?;
            commit = Some(git::fetch(&program, source, folder, settings, access).await?);
            source.subdirectory.as_deref()
        }
        (ModuleSource::Oci(source), _) => {
            let none = || SourceError::Unusable("there is no OpenTofu to fetch it with".to_owned());
            commit = oci::fetch(source, folder, tools.ok_or_else(none)?, access).await?;
            source.subdirectory.as_deref()
        }
    };
    links::check(folder)?;
    let source = &module.source;
    let module = enter(folder, subdirectory)?;
    if !matches!(source, ModuleSource::Git(_)) {
        remove_repository(&module)?;
    }
    Ok(Fetched { folder: module, commit })
}

/// Writes the texts `files` into the module's folder, in which no link leads elsewhere.
///
/// # Errors
///
/// [`SourceError::Disk`] if one cannot be written.
pub fn write_files(module: &Path, files: &BTreeMap<String, String>) -> Result<(), SourceError> {
    let write = |path: &Path, text: &str| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    };
    for (path, text) in files {
        let written = write(&module.join(path), text);
        written.map_err(SourceError::disk("write a file of the resource definition"))?;
    }
    Ok(())
}

/// Removes `.git` of a source that is no repository: its settings could name programs, which git would start when it
/// fetches child modules with the job's credentials. git itself refuses repositories that contain one.
fn remove_repository(module: &Path) -> Result<(), SourceError> {
    let path = module.join(".git");
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if found.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
        .map_err(SourceError::disk("remove `.git` of the source"))
}

async fn unpack(
    api: &ApiConnection,
    folder: &Path,
    digest: Option<&str>,
    log: &mut Log,
) -> Result<(), SourceError> {
    let bytes = bundle::fetch(async || api.bundle().await, digest, log).await?;
    let folder = folder.to_owned();
    // On a thread of its own, because reports must continue in the meantime.
    let unpacking = tokio::task::spawn_blocking(move || {
        archive::unpack(bytes.as_ref(), &folder, archive::Limits::default())
    });
    unpacking
        .await
        .unwrap_or_else(|_| Err(SourceError::Unusable("the unpacking was interrupted".to_owned())))
}

/// The module's folder: it must exist, and be inside of the source.
fn enter(folder: &Path, subdirectory: Option<&str>) -> Result<PathBuf, SourceError> {
    let Some(subdirectory) = subdirectory else { return Ok(folder.to_owned()) };
    let path = folder.join(subdirectory);
    let inside = || Some(path.canonicalize().ok()?.starts_with(folder.canonicalize().ok()?));
    if path.is_dir() && inside() == Some(true) {
        Ok(path)
    } else {
        Err(SourceError::Refused(format!(
            "the source has no folder `{subdirectory}`; check what comes after `//`"
        )))
    }
}
