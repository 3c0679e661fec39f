//! Brings the module into the job's folder.
//!
//! What comes from outside is hostile here: nothing in it may run, and nothing of it may land or
//! point outside the source's folder.

pub mod archive;
pub mod bundle;
pub mod git;
mod git_failure;
pub mod inline;
pub mod links;

use crate::{log::Log, session::Line, settings::Settings};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Module;
use canyon_domain::module_source::ModuleSource;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Whoever wrote the module must act.
    #[error("{0}")]
    Refused(String),
    /// Whoever runs the runner must act.
    #[error("{0}")]
    Unusable(String),
    /// What stands between the job and its source must act, or time: another attempt may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The file system said no.
    #[error("cannot {what}: {source}; has the job's disk room?")]
    Disk {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl SourceError {
    /// For `map_err`.
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

/// Fetches `module` into `folder`, and returns the folder in it in which to run.
///
/// # Errors
///
/// [`SourceError`], for the log and the result.
pub async fn fetch(
    module: &Module,
    folder: &Path,
    line: &Line,
    settings: &Settings,
    log: &mut Log,
) -> Result<PathBuf, SourceError> {
    let subdirectory = match (&module.source, &module.source_code) {
        (ModuleSource::Inline, Some(code)) => {
            inline::write(folder, code)?;
            None
        }
        (ModuleSource::Inline, None) => {
            unpack(line, folder, None, log).await?;
            None
        }
        (ModuleSource::Archive { digest, subdirectory }, _) => {
            unpack(line, folder, Some(digest.as_str()), log).await?;
            subdirectory.as_deref()
        }
        (ModuleSource::Git(source), _) => {
            git::fetch(source, folder, settings).await?;
            source.subdirectory.as_deref()
        }
    };
    links::check(folder)?;
    enter(folder, subdirectory)
}

async fn unpack(
    line: &Line,
    folder: &Path,
    digest: Option<&str>,
    log: &mut Log,
) -> Result<(), SourceError> {
    let bytes = bundle::fetch(async || line.bundle().await, digest, log).await?;
    let folder = folder.to_owned();
    // On a thread of its own: reports must go on meanwhile.
    let unpacking = tokio::task::spawn_blocking(move || {
        archive::unpack(bytes.as_ref(), &folder, archive::Limits::default())
    });
    unpacking
        .await
        .unwrap_or_else(|_| Err(SourceError::Unusable("the unpacking was interrupted".to_owned())))
}

/// The module's folder, which must be one, and inside.
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
