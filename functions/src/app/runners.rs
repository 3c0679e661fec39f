//! Creates, changes and deletes runners. Their secrets are sealed and stored in a separate field.

use super::App;
use crate::app::error::AppError;
use canyon_domain::causes::Causes;
use canyon_domain::field_error::{FieldError, FieldErrors};
use canyon_domain::ids::{OrgUuid, RunnerId, RunnerUuid};
use canyon_domain::inventory::Environment;
use canyon_domain::principal::Principal;
use canyon_domain::runner::{JobPlace, RunnerDefinition, missing_secret};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use canyon_store::runner_rules::RuleFilter;
use canyon_store::runners::RunnerRecord;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;

/// The secrets of a definition, by path.
type Secrets = BTreeMap<String, SecretString>;

impl App {
    /// A page of the runners; of all types, or of `runner_type`.
    pub(crate) async fn runners(
        &self,
        by: &Principal,
        runner_type: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<RunnerRecord>, AppError> {
        Ok(self.table.runners(by.org, runner_type, page).await?)
    }

    /// Creates a runner. Also returns the warnings about its definition.
    pub(crate) async fn create_runner(
        &self,
        by: &Principal,
        id: RunnerId,
        definition: RunnerDefinition,
    ) -> Result<(RunnerRecord, Vec<FieldError>), AppError> {
        self.check_served(&definition)?;
        let warnings = definition.warnings().to_vec();
        let (definition, secrets) = definition.split_secrets();
        let record = self.record(by, "runner.create", format!("runners/{id}"));
        let runner = RunnerRecord {
            runner_type: definition.runner_type().to_string(),
            definition: definition.to_value().to_string(),
            sealed_secrets: self.seal(by.org, &id, &secrets).await?,
            disabled: false,
            former_storages: Vec::new(),
            enabled_roles: BTreeMap::new(),
            id,
            uuid: RunnerUuid(self.entropy.id(record.at)),
            created_at: record.at,
            updated_at: record.at,
            finds_jobs_since: None,
            version: 1,
        };
        match self.table.create_runner(by.org, &runner, &record).await? {
            Created::Yes => Ok((runner, warnings)),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "runner `{0}` exists already; change it with: canyon update runner {0}",
                runner.id
            ))),
        }
    }

    /// Only the owner of a laptop should start jobs on Canyon's own machine.
    fn check_served(&self, definition: &RunnerDefinition) -> Result<(), AppError> {
        if self.serves_local_runners || !definition.is_on_own_machine() {
            return Ok(());
        }
        let reason = match definition.runner_type().job_place() {
            JobPlace::Docker => {
                "`docker` is for `canyon local` only: this Canyon has no Docker engine; use `docker-agent`, \
                 and start an agent beside the engine"
            }
            JobPlace::Machine | JobPlace::Cluster | JobPlace::Ecs => {
                "`local` without `agents` is for `canyon local` only: this Canyon has no machine to run \
                 jobs on"
            }
        };
        Err(AppError::invalid("runner_configuration.type", reason))
    }

    /// A runner. 404 if it does not exist.
    pub(crate) async fn runner(
        &self,
        by: &Principal,
        id: &RunnerId,
    ) -> Result<RunnerRecord, AppError> {
        let found = self.table.runner(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("runner", id))
    }

    /// Disables or enables a runner. Running jobs continue; new launches wait.
    pub(crate) async fn switch_runner(
        &self,
        by: &Principal,
        id: &RunnerId,
        disabled: bool,
    ) -> Result<RunnerRecord, AppError> {
        let runner = self.runner(by, id).await?;
        if runner.disabled == disabled {
            return Ok(runner);
        }
        let action = if disabled { "runner.disable" } else { "runner.enable" };
        let record = self.record(by, action, format!("runners/{id}"));
        match self.table.set_runner_disabled(by.org, id, disabled, &record).await? {
            Saved::Yes => self.runner(by, id).await,
            Saved::Lost => Err(AppError::not_found("runner", id)),
        }
    }

    /// Changes the fields of a runner that `patch` gives. A secret that it omits stays. A change that would leave
    /// states of its environments behind is refused, unless `migrate` is set. With `disabled`, the runner is disabled
    /// or enabled in the same write. Also returns the warnings about its definition.
    pub(crate) async fn update_runner(
        &self,
        by: &Principal,
        id: &RunnerId,
        patch: &Value,
        disabled: Option<bool>,
        migrate: bool,
    ) -> Result<(RunnerRecord, Vec<FieldError>), AppError> {
        for _ in 0..MAX_TRIES {
            let mut runner = self.runner(by, id).await?;
            let stored = stored_definition(&runner)?;
            let definition = stored.patched(patch.clone())?;
            self.check_served(&definition)?;
            self.keep_states(by, &mut runner, &stored, &definition, migrate).await?;
            // A change that concerns only jobs to come must not hide the end of those that run.
            let since = runner.finds_jobs_since.unwrap_or(runner.version);
            runner.finds_jobs_since = definition.finds_jobs_of(&stored).then_some(since);
            let of_this_change = definition.warnings().to_vec();
            let (definition, given) = definition.split_secrets();
            runner.sealed_secrets =
                self.merged_secrets(by.org, &runner, &definition, given).await?;
            runner.definition = definition.to_value().to_string();
            let mut record = self.record(by, "runner.update", format!("runners/{id}"));
            if migrate {
                record.details.push("its environments may migrate their states".to_owned());
            }
            if let Some(disabled) = disabled.filter(|disabled| *disabled != runner.disabled) {
                let switched = if disabled { "disabled" } else { "enabled" };
                record.details.push(format!("it is {switched}"));
                runner.disabled = disabled;
            }
            runner.updated_at = record.at;
            runner.version += 1;
            if self.table.save_runner(by.org, &runner, disabled, &record).await? == Saved::Yes {
                // A warning about a secret is given once: the secret cannot be read back.
                let mut warnings = stored_warnings(&runner)?;
                let new: Vec<_> =
                    of_this_change.into_iter().filter(|one| !warnings.contains(one)).collect();
                warnings.extend(new);
                return Ok((runner, warnings));
            }
        }
        Err(AppError::contended(id))
    }

    /// The secrets that `definition` needs: those in `given`, and the stored ones of `runner` for the rest. The stored
    /// secrets are decrypted only if one of them is needed.
    async fn merged_secrets(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        definition: &RunnerDefinition,
        given: Secrets,
    ) -> Result<Option<String>, AppError> {
        let needed = definition.secret_paths();
        let mut secrets = match &runner.sealed_secrets {
            Some(sealed) if needed.iter().any(|path| !given.contains_key(path)) => {
                self.open(org, &runner.id, sealed).await?
            }
            _ => Secrets::new(),
        };
        secrets.extend(given);
        secrets.retain(|path, _| needed.contains(path));
        let mut missing = FieldErrors::default();
        // A runner without any stored secret has a warning already.
        if runner.sealed_secrets.is_some() {
            for path in needed.iter().filter(|path| !secrets.contains_key(*path)) {
                missing.add(path, "has no stored secret; give it again");
            }
        }
        missing.into_result(())?;
        self.seal(org, &runner.id, &secrets).await
    }

    async fn seal(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
        secrets: &Secrets,
    ) -> Result<Option<String>, AppError> {
        if secrets.is_empty() {
            return Ok(None);
        }
        let plain: BTreeMap<_, _> =
            secrets.iter().map(|(path, secret)| (path, secret.expose_secret())).collect();
        let text = serde_json::to_vec(&plain).map_err(|error| broken(runner, &error))?;
        let place = RunnerRecord::sealing_context(org, runner);
        let sealed = self.master_keys.get().await?.seal(&place, &text, self.entropy.as_ref());
        sealed.map(Some).map_err(|error| broken(runner, &error))
    }

    async fn open(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
        sealed: &str,
    ) -> Result<Secrets, AppError> {
        let place = RunnerRecord::sealing_context(org, runner);
        let text = self
            .master_keys
            .get()
            .await?
            .open(&place, sealed)
            .map_err(|error| broken(runner, &error))?;
        serde_json::from_slice(&text).map_err(|error| broken(runner, &error))
    }

    /// Deletes a runner that no environment is linked to and no rule names.
    pub(crate) async fn delete_runner(
        &self,
        by: &Principal,
        id: &RunnerId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let record = self.record(by, "runner.delete", format!("runners/{id}"));
            if self.table.delete_runner(by.org, id, &record).await? == Deleted::Yes {
                return Ok(());
            }
            self.runner(by, id).await?;
            let filter = RuleFilter { runner: Some(id.clone()), ..RuleFilter::default() };
            let is_linked = |env: &Environment| env.runner_ids().any(|linked| linked == id);
            let users = self.users(by, is_linked, Some(&filter)).await?;
            if !users.is_empty() {
                return Err(users.refusal(
                    &format!("runner `{id}`"),
                    "delete its rules (canyon delete runner-rule ID), and move its environments \
                     to another runner (canyon refresh-runner PROJECT ENV) or delete them",
                ));
            }
        }
        Err(AppError::contended(id))
    }
}

pub(super) fn stored_definition(runner: &RunnerRecord) -> Result<RunnerDefinition, AppError> {
    let value = serde_json::from_str(&runner.definition);
    let value = value.map_err(|error| broken(&runner.id, &error))?;
    RunnerDefinition::parse_stored(value).map_err(|error| broken(&runner.id, &error))
}

/// The warnings about a stored runner, also about secrets that were never given.
pub(crate) fn stored_warnings(runner: &RunnerRecord) -> Result<Vec<FieldError>, AppError> {
    let definition = stored_definition(runner)?;
    let mut warnings = definition.warnings().to_vec();
    if runner.sealed_secrets.is_none() {
        warnings.extend(definition.secret_paths().into_iter().map(missing_secret));
    }
    Ok(warnings)
}

/// The refusal to use a runner whose definition has faults.
pub(super) fn unusable(runner: &RunnerId, faults: &FieldErrors) -> String {
    format!(
        "runner `{runner}` cannot be used: {faults}; change it with: canyon update runner {runner}"
    )
}

/// The stored definition cannot be used. The log has the cause, and contains no secret.
fn broken(runner: &RunnerId, error: &(dyn std::error::Error + 'static)) -> AppError {
    tracing::error!(%runner, error = %Causes(error), "the stored runner cannot be used");
    AppError::internal()
}
