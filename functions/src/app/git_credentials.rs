//! The credentials for git repositories that an organization keeps for its jobs. They are stored with the variables of
//! the same scope.

use super::App;
use crate::app::error::AppError;
use canyon_domain::causes::Causes;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::git_credentials::edit::{CheckedEdit, GitCredentialEdits, path_of};
use canyon_domain::git_credentials::repository_prefix::RepositoryPrefix;
use canyon_domain::git_credentials::secret::GitSecret;
use canyon_domain::git_credentials::{
    GitCredential, GitCredentials, JobGitCredential, effective, sealing_context,
};
use canyon_domain::ids::OrgUuid;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::VariableSet;
use canyon_identity::master_key::MasterKey;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use std::error::Error;

impl App {
    /// The credentials of a scope.
    pub(crate) async fn git_credentials(
        &self,
        by: &Principal,
        scope: &VariableScope,
    ) -> Result<GitCredentials, AppError> {
        self.owner_of_variables(by, Role::Viewer, scope).await?;
        let found = self.table.variable_set(by.org, scope).await?;
        Ok(found.map(|set| set.git_credentials).unwrap_or_default())
    }

    /// Changes credentials of a scope.
    pub(crate) async fn update_git_credentials(
        &self,
        by: &Principal,
        scope: &VariableScope,
        edits: &GitCredentialEdits,
    ) -> Result<GitCredentials, AppError> {
        for _ in 0..MAX_TRIES {
            let owner = self.owner_of_variables(by, Role::Admin, scope).await?;
            let found = self.table.variable_set(by.org, scope).await?;
            let before = found.unwrap_or_else(|| self.empty_set(scope, &owner));
            let mut set = before.clone();
            let details = self.apply_git_credentials(by, &mut set, edits).await?;
            if details.is_empty() {
                return Ok(before.git_credentials);
            }
            if let Some(excess) = set.excess() {
                return Err(AppError::conflict(format!("the set `{scope}` {excess}")));
            }
            let mut record =
                self.record(by, "git_credentials.update", scope.path_of("git-credentials"));
            record.details = details;
            set.updated_at = record.at;
            set.version += 1;
            let saved = self.table.save_variable_set(by.org, &set, owner.stored, &record).await?;
            if saved == Saved::Yes {
                return Ok(set.git_credentials);
            }
        }
        Err(AppError::contended(scope))
    }

    /// Applies `edits` to a set. Returns what they do, for the audit record.
    async fn apply_git_credentials(
        &self,
        by: &Principal,
        set: &mut VariableSet,
        edits: &GitCredentialEdits,
    ) -> Result<Vec<String>, AppError> {
        let keys = self.master_keys.get().await?;
        let (mut details, mut faults) = (Vec::new(), FieldErrors::default());
        for (repositories, edit) in edits {
            let Some(CheckedEdit { secret, description }) = edit else {
                if set.git_credentials.remove(repositories).is_some() {
                    details.push(format!("removed {repositories}"));
                }
                continue;
            };
            let known = set.git_credentials.get(repositories);
            let (kind, sealed) = match (secret, known) {
                (Some((secret, kind)), _) => (
                    kind.clone(),
                    self.seal_git_secret(&keys, by.org, &set.scope, repositories, secret)?,
                ),
                (None, Some(known)) => (known.kind.clone(), known.sealed.clone()),
                (None, None) => {
                    let path = path_of(&repositories.to_string());
                    faults.add(
                        path,
                        "needs a `token`, an `ssh_key`, a `github_app` or a `cloud_identity`",
                    );
                    continue;
                }
            };
            let before = known.and_then(|known| known.description.clone());
            let description = description.clone().or_else(|| before.clone());
            let description = description.filter(|text| !text.is_empty());
            if secret.is_none() && description == before {
                continue;
            }
            details.push(format!("set {repositories} ({})", kind.name()));
            let (updated_at, updated_by) = (self.now(), by.id);
            let credential = GitCredential { kind, sealed, description, updated_at, updated_by };
            set.git_credentials.insert(repositories.clone(), credential);
        }
        faults.into_result(())?;
        Ok(details)
    }

    fn seal_git_secret(
        &self,
        keys: &MasterKey,
        org: OrgUuid,
        scope: &VariableScope,
        repositories: &RepositoryPrefix,
        secret: &GitSecret,
    ) -> Result<String, AppError> {
        let fault = |error: &(dyn Error + 'static)| broken(scope, repositories, error);
        let text = serde_json::to_vec(secret).map_err(|error| fault(&error))?;
        let context = sealing_context(org, scope, repositories);
        keys.seal(&context, &text, self.entropy.as_ref()).map_err(|error| fault(&error))
    }
}

/// The credentials of `sets` that a job gets, with the secrets.
pub(super) fn open_all(
    keys: &MasterKey,
    org: OrgUuid,
    sets: &[VariableSet],
) -> Result<Vec<JobGitCredential>, AppError> {
    let open = |(repositories, (scope, credential)): (
        &RepositoryPrefix,
        (&VariableScope, &GitCredential),
    )| {
        let fault = |error: &(dyn Error + 'static)| broken(scope, repositories, error);
        let context = sealing_context(org, scope, repositories);
        let text = keys.open(&context, &credential.sealed).map_err(|error| fault(&error))?;
        let secret = serde_json::from_slice(&text).map_err(|error| fault(&error))?;
        let (repositories, from) = (repositories.clone(), scope.clone());
        Ok(JobGitCredential { repositories, secret, from })
    };
    effective(sets.iter().map(|set| (&set.scope, &set.git_credentials)))
        .into_iter()
        .map(open)
        .collect()
}

fn broken(
    scope: &VariableScope,
    repositories: &RepositoryPrefix,
    error: &(dyn Error + 'static),
) -> AppError {
    tracing::error!(%scope, %repositories, error = %Causes(error), "a stored git credential cannot be used");
    AppError::internal()
}
