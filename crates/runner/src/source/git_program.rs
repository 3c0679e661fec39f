//! The git that fetches a source.
//!
//! A container job runs in an image of its author, which needs no git. Its platform then mounts a copy of the runner image's
//! git at [`TREE`], with its loader and libraries, so that it runs in any image. It starts no shell, which an image may not have
//! either: so it fetches over https.

use super::SourceError;
use crate::certificates;
use crate::environment::Variables;
use crate::settings::Settings;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the copy is.
pub const TREE: &str = "/canyon-git";

/// A program, and the variables that it needs.
#[derive(Clone, Debug)]
pub struct GitProgram {
    pub(super) path: PathBuf,
    variables: Variables,
    /// The file of the authorities to trust, unless the job names one.
    authorities: Option<OsString>,
    /// Whether the shell scripts of git can run, such as `git submodule`.
    pub(super) has_scripts: bool,
}

impl GitProgram {
    /// The git of the job's machine or image.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn installed(settings: &Settings) -> Result<Self, SourceError> {
        let path = settings.find_program("git").ok_or_else(|| {
            SourceError::Unusable(
                "`git` is not on the PATH of the job; install it there, or use an image that has it"
                    .to_owned(),
            )
        })?;
        Ok(Self { path, variables: Variables::new(), authorities: None, has_scripts: true })
    }

    /// The git that the platform has mounted; without one, that of the image.
    ///
    /// # Errors
    ///
    /// If there is neither.
    pub fn mounted(settings: &Settings) -> Result<Self, SourceError> {
        let (tree, path) = (Path::new(TREE), Path::new(TREE).join("bin/git"));
        if !path.is_file() {
            return Self::installed(settings);
        }
        let variables = vec![
            ("GIT_EXEC_PATH".into(), tree.join("bin").into()),
            ("LD_LIBRARY_PATH".into(), tree.join("lib").into()),
            // There is no program that answers with nothing. Without one, git asks the terminal, which it may not.
            ("GIT_ASKPASS".into(), OsString::new()),
        ];
        let authorities = certificates::trusted_file();
        Ok(Self { path, variables, authorities, has_scripts: false })
    }

    /// The environment of the program, from that of any git.
    pub(super) fn environment(&self, mut of_git: Variables) -> Variables {
        if let Some(file) = &self.authorities
            && !of_git.iter().any(|(name, _)| name == "GIT_SSL_CAINFO")
        {
            of_git.push(("GIT_SSL_CAINFO".into(), file.clone()));
        }
        of_git.extend(self.variables.iter().cloned());
        of_git
    }
}
