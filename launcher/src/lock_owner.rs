//! Proves that the job of a state lock's owner is gone, so that the lock may be broken.

use crate::late_salvage::EndedJob;
use crate::resolved_runner::ResolvedRunner;
use crate::step_outcome::StepOutcome;
use crate::{LaunchError, Launcher};
use canyon_dispatch::JobRef;
use canyon_domain::attempt::{Attempt, Outcome, Salvage};
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::Deployment;
use canyon_domain::lifecycle::{self, LEASE};
use canyon_domain::state_lock::{self, LockOwner};
use canyon_store::deployment_lists::Due;
use std::time::Duration;

/// How long after a job was proved gone the launcher asks once more for output that its platform did not return.
const SALVAGE_PAUSE: Duration = Duration::from_secs(10);

impl Launcher {
    /// Observes the job that owns the lock which `deployment` waits for. A proof is recorded with
    /// that job's attempt, where the API finds it when it decides about the lock.
    pub(crate) async fn prove_lock_owner_gone(
        &self,
        due: Due,
        mut deployment: Deployment,
        holder: LockOwner,
    ) -> Result<StepOutcome, LaunchError> {
        let reason = if holder.deployment == due.id {
            let resolved = self.resolve_runner(due, &deployment).await?;
            self.prove(&mut deployment, holder.attempt, &resolved).await.err()
        } else {
            let other = Due { org: due.org, id: holder.deployment };
            self.prove_other(other, holder.attempt).await?
        };
        let next_look = self.clock.now() + LEASE / 4;
        state_lock::record_check(&mut deployment, reason, next_look);
        self.save(due, deployment).await?;
        Ok(StepOutcome::Changed)
    }

    /// Why the job of an attempt of another deployment is not proved gone; `None` if it is.
    async fn prove_other(&self, due: Due, number: u32) -> Result<Option<String>, LaunchError> {
        let Some(other) = self.table.deployment(due.org, due.id).await? else {
            return Ok(Some("its deployment is no longer known".to_owned()));
        };
        let resolved = self.resolve_runner(due, &other).await?;
        Ok(match self.prove_and_salvage(due, &other, number, &resolved).await? {
            EndedJob::MayLive(reason) => Some(reason),
            EndedJob::Unread => {
                Some("its job is gone, and what it left cannot be read yet".to_owned())
            }
            EndedJob::Read => None,
            EndedJob::Changed => Some("its deployment was changed at the same time".to_owned()),
        })
    }

    /// Tries to prove that the job of an ended attempt is gone, if the attempt may have left a lock or resources without
    /// a state, and then reads what the job left. The platform still knows the job then. A job that still lives is
    /// observed again when a later run finds its lock, or is launched. Returns whether the job's remains may be removed.
    pub(crate) async fn prove_end(
        &self,
        due: Due,
        deployment: &Deployment,
        resolved: &ResolvedRunner,
    ) -> Result<bool, LaunchError> {
        // The record of a stream may be old: another call may have read what the job left since.
        let current = match deployment.to_salvage() {
            Some(_) => self.table.deployment(due.org, due.id).await?,
            None => None,
        };
        let deployment = current.as_ref().unwrap_or(deployment);
        let may_have_locked = |attempt: &&Attempt| {
            let failed = |ended: &_| outcome_of(ended) != &Outcome::Succeeded;
            attempt.claim.is_some() && attempt.ended.as_ref().is_some_and(failed)
        };
        let Some(last) = deployment.attempts.last().filter(may_have_locked) else {
            return Ok(true);
        };
        let is_unread = last.salvage == Salvage::Pending;
        let now = self.clock.now();
        if is_unread && last.job_gone_at.is_some_and(|gone| now < gone + SALVAGE_PAUSE) {
            return Ok(false);
        }
        Ok(match self.prove_and_salvage(due, deployment, last.number, resolved).await? {
            EndedJob::MayLive(_) => !is_unread,
            // The call that has changed it calls this function as well.
            EndedJob::Unread | EndedJob::Changed => false,
            EndedJob::Read => true,
        })
    }

    /// Asks the platform about the job of an ended attempt, and records that the job is gone.
    ///
    /// # Errors
    ///
    /// A text for people: why the job is not proved gone.
    pub(crate) async fn prove(
        &self,
        deployment: &mut Deployment,
        number: u32,
        resolved: &ResolvedRunner,
    ) -> Result<(), String> {
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == number);
        let Some(attempt) = attempt.filter(|attempt| attempt.ended.is_some()) else {
            return Err("it still runs".to_owned());
        };
        if attempt.job_gone_at.is_some() {
            return Ok(());
        }
        let dispatcher = resolved.dispatcher.as_ref().map_err(Clone::clone)?;
        let handle = attempt.handle.clone();
        let job = JobRef { deployment: deployment.id, attempt: number, handle };
        let observation = dispatcher.observe(&job).await;
        match &observation {
            Observation::Gone(_) if is_proof(&observation, attempt, resolved) => {
                lifecycle::job_gone(deployment, number, self.clock.now());
                Ok(())
            }
            Observation::Gone(_) => {
                Err("its runner was changed after the launch, and the place where the \
                                         runner runs jobs now does not have its job"
                    .to_owned())
            }
            Observation::Alive => Err("its job still lives".to_owned()),
            Observation::Queued(reason) | Observation::Waiting(reason) => {
                Err(format!("its job may still start: {reason}"))
            }
            Observation::Unknown(reason) => Err(format!("the platform does not say: {reason}")),
        }
    }
}

fn outcome_of(ended: &canyon_domain::attempt::Ended) -> &Outcome {
    &ended.outcome
}

/// Whether the platform's answer proves that the attempt's job is gone. A runner that was changed
/// after the launch may name another place, where another job has that name, or none.
pub(crate) fn is_proof(
    observation: &Observation,
    attempt: &Attempt,
    resolved: &ResolvedRunner,
) -> bool {
    matches!(observation, Observation::Gone(_)) && resolved.finds_job_of(attempt)
}
