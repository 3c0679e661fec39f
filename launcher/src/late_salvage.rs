//! Reads what a job left after its attempt has ended: the job was not proved gone before, or its platform did not return
//! the job's events.

use crate::resolved_runner::ResolvedRunner;
use crate::salvage::Evidence;
use crate::{LaunchError, Launcher};
use canyon_dispatch::JobRef;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::inventory::Environment;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;

/// How often the environment is saved again after a lost race.
const MAX_TRIES: u32 = 20;

impl Launcher {
    /// Reads what the job of attempt `number` left, if that is still to be done. The job must be proved gone.
    ///
    /// If the job could not write its state, the environment knows of that before the deployment does: so if this process
    /// dies in between, another one repeats the call.
    pub(crate) async fn salvage_late(
        &self,
        due: Due,
        deployment: &mut Deployment,
        number: u32,
        resolved: &ResolvedRunner,
    ) -> Result<Evidence, LaunchError> {
        let pending = deployment.to_salvage().filter(|of| of.number == number);
        let (Some(_), Ok(dispatcher)) = (pending, &resolved.dispatcher) else {
            return Ok(Evidence::Read);
        };
        let evidence = self.salvage(due, deployment, number, dispatcher).await?;
        let (project, env) = (&deployment.project, &deployment.env);
        for _ in 0..MAX_TRIES {
            let found = self.table.environment(due.org, project, env).await?;
            let found = found.filter(|found| found.uuid == deployment.env_uuid);
            let Some(mut environment) = found else { return Ok(evidence) };
            if !environment.salvaged(deployment) {
                return Ok(evidence);
            }
            let now = self.clock.now();
            let record = AuditRecord::of_salvage(self.entropy.id(now), now, deployment);
            if self.table.save_environment(due.org, &environment, &record).await? == Saved::Yes {
                return Ok(evidence);
            }
        }
        Err(LaunchError::Contended(due.id))
    }

    /// Reads what an unfinished deployment left, before the next deployment `due` of its environment is launched.
    /// Returns whether that succeeded: the environment may have changed.
    pub(crate) async fn salvage_unfinished(
        &self,
        due: Due,
        environment: &Environment,
    ) -> Result<bool, LaunchError> {
        let Some(id) = environment.unfinished().filter(|id| *id != due.id) else {
            return Ok(false);
        };
        let due = Due { org: due.org, id };
        let Some(mut unfinished) = self.table.deployment(due.org, id).await? else {
            return Ok(false);
        };
        let Some(attempt) = unfinished.to_salvage() else { return Ok(false) };
        let (number, handle) = (attempt.number, attempt.handle.clone());
        let resolved = self.resolve_runner(due, &unfinished).await?;
        if let Err(reason) = self.prove(&mut unfinished, number, &resolved).await {
            tracing::warn!(deployment = %id, reason, "cannot read yet what its job left");
            return Ok(false);
        }
        let evidence = self.salvage_late(due, &mut unfinished, number, &resolved).await?;
        let is_salvaged = unfinished.to_salvage().is_none();
        unfinished.version += 1;
        let saved = self.table.save_deployment(due.org, &unfinished, Wake::None).await?;
        if let Ok(dispatcher) = &resolved.dispatcher
            && evidence != Evidence::Unreadable
            && saved == Saved::Yes
        {
            dispatcher.forget(&JobRef { deployment: id, attempt: number, handle }).await;
        }
        Ok(is_salvaged)
    }
}
