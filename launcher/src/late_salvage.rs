//! Reads what a job left after its attempt has ended: the job was not proved gone before, or its platform did not return
//! the job's events.

use crate::resolved_runner::ResolvedRunner;
use crate::{LaunchError, Launcher};
use canyon_dispatch::JobRef;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::module_record::ModuleRecord;
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;

/// What a call has established about the job of an ended attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndedJob {
    /// It is not proved gone, for this reason.
    MayLive(String),
    /// It is gone, and what it left is still to be read.
    Unread,
    /// It is gone, and Canyon has read what it left, or knows that this is impossible.
    Read,
    /// Another call has changed the deployment since it was read: nothing is recorded.
    Changed,
}

impl Launcher {
    /// Tries to prove that the job of attempt `number` is gone, reads what it left if that is still to be done, and
    /// records both. `deployment` is as it was read.
    pub(crate) async fn prove_and_salvage(
        &self,
        due: Due,
        deployment: &Deployment,
        number: u32,
        resolved: &ResolvedRunner,
    ) -> Result<EndedJob, LaunchError> {
        let mut found = deployment.clone();
        if let Err(reason) = self.prove(&mut found, number, resolved).await {
            return Ok(EndedJob::MayLive(reason));
        }
        let is_pending = |of: &Deployment| of.to_salvage().is_some_and(|at| at.number == number);
        let was_pending = is_pending(&found);
        let is_same_runner =
            found.to_salvage().is_some_and(|attempt| resolved.finds_job_of(attempt));
        if let (true, Ok(dispatcher)) = (was_pending, &resolved.dispatcher) {
            self.salvage(due, &mut found, number, dispatcher, is_same_runner).await?;
        }
        let is_unread = is_pending(&found);
        if found != *deployment {
            found.version += 1;
            if self.save_salvaged(due, found, number, was_pending).await? == Saved::Lost {
                return Ok(EndedJob::Changed);
            }
        }
        Ok(if is_unread { EndedJob::Unread } else { EndedJob::Read })
    }

    /// Saves the deployment, and in the same write what its environment learns of it. If two calls have read what the job
    /// left, only the first is saved: the second one may have found nothing, because the job's remains were removed.
    async fn save_salvaged(
        &self,
        due: Due,
        mut deployment: Deployment,
        number: u32,
        was_pending: bool,
    ) -> Result<Saved, LaunchError> {
        for _ in 0..MAX_TRIES {
            let (project, env) = (&deployment.project, &deployment.env);
            let mut environment = None;
            if was_pending {
                environment = self.table.environment(due.org, project, env).await?;
            }
            let now = self.clock.now();
            deployment.set_salvaged_at(number, now);
            let learns = environment.as_mut().is_some_and(|found| {
                found.uuid == deployment.env_uuid && found.salvaged(&deployment)
            });
            let record =
                learns.then(|| AuditRecord::of_salvage(self.entropy.id(now), now, &deployment));
            let environment = match &environment {
                Some(environment) if learns => EnvironmentChange::Save(environment),
                Some(_) | None => EnvironmentChange::Keep,
            };
            let step = DeploymentChange {
                deployment: &deployment,
                environment,
                next: None,
                wake: Wake::None,
                record: record.as_ref(),
            };
            if self.table.change_deployment(due.org, &step).await? == Saved::Yes {
                return Ok(Saved::Yes);
            }
            let current = self.table.deployment(due.org, due.id).await?;
            if current.is_none_or(|current| current.version + 1 != deployment.version) {
                return Ok(Saved::Lost);
            }
        }
        Err(LaunchError::Contended(due.id))
    }

    /// Reads what an unfinished deployment left, before the next deployment `due` of its environment is launched.
    /// Returns whether the environment may have changed by that.
    pub(crate) async fn salvage_unfinished(
        &self,
        due: Due,
        module: Option<&ModuleRecord>,
    ) -> Result<bool, LaunchError> {
        let unfinished = module.and_then(ModuleRecord::unfinished);
        let Some(id) = unfinished.filter(|id| *id != due.id) else {
            return Ok(false);
        };
        let due = Due { org: due.org, id };
        let Some(unfinished) = self.table.deployment(due.org, id).await? else { return Ok(false) };
        let Some(attempt) = unfinished.to_salvage() else { return Ok(false) };
        let (number, handle) = (attempt.number, attempt.handle.clone());
        let resolved = self.resolve_runner(due, &unfinished).await?;
        match self.prove_and_salvage(due, &unfinished, number, &resolved).await? {
            EndedJob::MayLive(reason) => {
                tracing::warn!(deployment = %id, reason, "cannot read yet what its job left");
                return Ok(false);
            }
            EndedJob::Unread => return Ok(false),
            EndedJob::Changed => {}
            EndedJob::Read => {
                if let Ok(dispatcher) = &resolved.dispatcher {
                    dispatcher.forget(&JobRef { deployment: id, attempt: number, handle }).await;
                }
            }
        }
        Ok(true)
    }
}
