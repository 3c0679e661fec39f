//! Named roles of a runner: which job may have one, and how an administrator enables a disabled one for some hours.

use super::App;
use super::deploy::DeploymentRequest;
use super::runners::stored_definition;
use crate::app::error::AppError;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::enabled_role::EnabledRole;
use canyon_domain::ids::{EnvTypeId, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::job_identity::JobIdentity;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::requested_role::RoleName;
use canyon_domain::runner::RunnerDefinition;
use canyon_domain::runner::named_role::RoleRefusal;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use canyon_store::runners::RunnerRecord;
use jiff::{SignedDuration, Timestamp};

/// The identity of a deployment's job that a runner claimed at `at`.
///
/// # Errors
///
/// Why it cannot have the named role that it asked for: the definition was changed since, the role is disabled again, or
/// a fallback of the runner has no such role.
pub(super) fn identity_of(
    runner: &RunnerRecord,
    definition: &RunnerDefinition,
    deployment: &Deployment,
    env_type: &EnvTypeId,
    at: Timestamp,
) -> Result<Option<JobIdentity>, String> {
    let identity = definition.configuration.job_identity();
    let Some(asked) = &deployment.role else {
        return Ok(identity.map(|identity| identity.of_run(deployment.mode, None)));
    };
    let named =
        identity.and_then(|identity| Some((identity, identity.named_role(asked.name.as_str())?)));
    let Some((identity, role)) = named else {
        return Err(format!("runner `{}` has no role `{}`", runner.id, asked.name));
    };
    match role.refusal(asked, deployment.kind(), env_type, is_enabled(runner, &asked.name, at)) {
        Some(refusal) => Err(format!("runner `{}`: {refusal}", runner.id)),
        None => Ok(Some(identity.of_run(deployment.mode, Some(&role.roles)))),
    }
}

fn is_enabled(runner: &RunnerRecord, role: &RoleName, at: Timestamp) -> bool {
    runner.enabled_roles.get(role).is_some_and(|enabled| enabled.holds(at))
}

/// The names of the roles of a runner, for messages.
fn listed(identity: Option<&JobIdentity>) -> String {
    let roles = identity.and_then(|identity| identity.named_roles.as_ref());
    let names: Vec<_> = roles.into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) }
}

impl App {
    /// Refuses a request for a named role that the run could not have.
    pub(super) async fn check_requested_role(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Result<(), AppError> {
        let Some(asked) = &order.role else { return Ok(()) };
        let id = &environment.runner_id;
        let runner = self.table.runner(by.org, id).await?;
        let runner = runner.ok_or_else(|| AppError::conflict(format!("runner `{id}` is gone")))?;
        let definition = stored_definition(&runner)?;
        let identity = definition.configuration.job_identity();
        let Some(role) = identity.and_then(|identity| identity.named_role(asked.name.as_str()))
        else {
            // Only a reader of the whole organization learns which roles a runner has.
            let others = if by.role >= Role::Viewer {
                format!("; {}", listed(identity))
            } else {
                String::new()
            };
            let reason = format!("is no role of runner `{id}`{others}");
            return Err(AppError::invalid("role", reason));
        };
        let is_enabled = is_enabled(&runner, &asked.name, self.now());
        // A rollback is of the kind of the deployment that it repeats.
        let repeated = match order.rollback_to {
            Some(id) => self.table.deployment(by.org, id).await?,
            None => None,
        };
        let repeated = repeated.filter(|of| of.env_uuid == environment.uuid);
        let kinds = repeated.map_or_else(|| order.kinds(environment), |of| vec![of.kind()]);
        let env_type = &environment.env_type_id;
        let refusals =
            kinds.into_iter().map(|kind| role.refusal(asked, kind, env_type, is_enabled));
        // The claim of the job asks again, with its kind.
        match refusals.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().next()) {
            None => Ok(()),
            Some(refusal @ RoleRefusal::NoReason(_)) => {
                Err(AppError::invalid("reason", refusal.to_string()))
            }
            Some(refusal) => Err(AppError::denied(refusal.to_string())),
        }
    }

    /// Enables a disabled role for `seconds`. An enabled one gets the new reason and end.
    ///
    /// # Errors
    ///
    /// 404 if the runner has no such role; 409 if its definition does not disable it.
    pub(crate) async fn enable_role(
        &self,
        by: &Principal,
        runner: &RunnerId,
        role: &RoleName,
        reason: &str,
        seconds: u32,
    ) -> Result<RunnerRecord, AppError> {
        let mut record = self.record(by, "runner.enable_role", format!("runners/{runner}"));
        let until = record.at + SignedDuration::from_secs(seconds.into());
        record.details =
            vec![format!("role: {role}"), format!("reason: {reason}"), format!("until: {until}")];
        let enabled = EnabledRole { reason: reason.to_owned(), by: by.id, at: record.at, until };
        self.change_enabled_role(by, runner, role, Some(&enabled), &record).await
    }

    /// Disables a role again before its time. A run that has it goes on.
    ///
    /// # Errors
    ///
    /// 404 if the runner has no such role.
    pub(crate) async fn disable_role(
        &self,
        by: &Principal,
        runner: &RunnerId,
        role: &RoleName,
    ) -> Result<RunnerRecord, AppError> {
        let mut record = self.record(by, "runner.disable_role", format!("runners/{runner}"));
        record.details = vec![format!("role: {role}")];
        self.change_enabled_role(by, runner, role, None, &record).await
    }

    async fn change_enabled_role(
        &self,
        by: &Principal,
        id: &RunnerId,
        name: &RoleName,
        enabled: Option<&EnabledRole>,
        record: &AuditRecord,
    ) -> Result<RunnerRecord, AppError> {
        for _ in 0..MAX_TRIES {
            let mut runner = self.runner(by, id).await?;
            let definition = stored_definition(&runner)?;
            let identity = definition.configuration.job_identity();
            let role = identity.and_then(|identity| identity.named_role(name.as_str()));
            let Some(role) = role else {
                let others = listed(identity);
                return Err(AppError::missing(format!(
                    "there is no role `{name}` of runner `{id}`; {others}"
                )));
            };
            if !role.must_be_enabled() {
                return Err(AppError::conflict(format!(
                    "role `{name}` of runner `{id}` is always enabled: its definition has no `enabled: false`"
                )));
            }
            let is_changed = enabled.is_some() || is_enabled(&runner, name, record.at);
            runner.enabled_roles.retain(|known, role| known != name && role.holds(record.at));
            if !is_changed {
                return Ok(runner);
            }
            runner.enabled_roles.extend(enabled.map(|enabled| (name.clone(), enabled.clone())));
            let read_at = std::mem::replace(&mut runner.updated_at, record.at);
            let saved = self.table.save_enabled_roles(by.org, &runner, read_at, record).await?;
            if saved == Saved::Yes {
                return Ok(runner);
            }
        }
        Err(AppError::contended(id))
    }
}
