//! The source of a container job: checked out into the shared directory before the program starts.

use crate::git_access::GitAccess;
use crate::log::Log;
use crate::session::ApiConnection;
use crate::settings::Settings;
use crate::source::git;
use crate::source::git_program::GitProgram;
use crate::workspace::Workspace;
use canyon_domain::container::{ContainerJob, JobSource};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::git_credentials::JobGitCredential;
use canyon_domain::git_credentials::repository_prefix::RepositoryPrefix;
use canyon_domain::git_credentials::secret::GitSecret;
use canyon_domain::job::Job;
use canyon_domain::variable_scope::VariableScope;
use std::path::Path;

/// The credentials for the source of `container`: its own password, or those that the organization keeps. Without a source
/// there are none, so that nothing signs in for them.
pub(super) async fn access(
    job: &mut Job,
    container: &ContainerJob,
    workspace: &Workspace,
    api: &ApiConnection,
) -> GitAccess {
    let Some(source) = &container.source else { return GitAccess::default() };
    if let Some(own) = own_credential(source, job) {
        job.git_credentials = vec![own];
    }
    Box::pin(GitAccess::prepare(job, workspace, api)).await
}

fn own_credential(source: &JobSource, job: &Job) -> Option<JobGitCredential> {
    let token = source.password.as_ref()?.value()?.to_owned().into();
    let repositories: RepositoryPrefix = source.url.parse().ok()?;
    let secret = GitSecret::Token { username: source.username().to_owned(), token };
    let from = VariableScope::Environment(job.project_id.clone(), job.env_id.clone());
    Some(JobGitCredential { repositories, secret, from })
}

/// Checks `source` out into `folder`.
///
/// # Errors
///
/// The [`Failure`] of the run, in the words of git.
pub(super) async fn fetch(
    source: &JobSource,
    folder: &Path,
    settings: &Settings,
    access: &GitAccess,
    log: &mut Log,
) -> Result<(), Failure> {
    for warning in access.warnings() {
        log.warn(&warning);
    }
    let refused = |reason: String| Failure::new(FailureClass::Config, reason);
    let repository = source.repository().map_err(|error| refused(error.to_string()))?;
    log.step(&format!("fetch {}", source.url));
    log.flush();
    let program = GitProgram::mounted(settings)?;
    let commit = git::fetch(&program, &repository, folder, settings, access).await?;
    log.step(&format!("{} is at commit {commit}", source.url));
    Ok(())
}
