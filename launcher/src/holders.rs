//! Proofs that jobs are gone, for the sake of the locks that they may have left.

use crate::site::Site;
use crate::tend::Done;
use crate::{LaunchError, Launcher};
use canyon_dispatch::JobRef;
use canyon_domain::attempt::{Attempt, Outcome};
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::Deployment;
use canyon_domain::lifecycle::{self, LEASE};
use canyon_domain::state_lock::{self, Holder};
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;

impl Launcher {
    /// Looks at the job that has left the lock which `deployment` waits for. A proof is recorded with
    /// that job's attempt, where whoever judges the lock finds it.
    pub(crate) async fn look_at_holder(
        &self,
        due: Due,
        mut deployment: Deployment,
        holder: Holder,
    ) -> Result<Done, LaunchError> {
        let said = if holder.deployment == due.id {
            let site = self.site(due, &deployment).await?;
            self.prove(&mut deployment, holder.attempt, &site).await.err()
        } else {
            let other = Due { org: due.org, id: holder.deployment };
            self.prove_other(other, holder.attempt).await?
        };
        let next_look = self.clock.now() + LEASE / 4;
        state_lock::looked(&mut deployment, said, next_look);
        self.save(due, deployment).await?;
        Ok(Done::Again)
    }

    /// What keeps the job of an attempt of another deployment from being proved gone, if anything.
    async fn prove_other(&self, due: Due, number: u32) -> Result<Option<String>, LaunchError> {
        let Some(mut other) = self.table.deployment(due.org, due.id).await? else {
            return Ok(Some("its deployment is no longer known".to_owned()));
        };
        let site = self.site(due, &other).await?;
        if let Err(reason) = self.prove(&mut other, number, &site).await {
            return Ok(Some(reason));
        }
        other.version += 1;
        Ok(match self.table.save_deployment(due.org, &other, Wake::Nobody).await? {
            Saved::Yes => None,
            Saved::Lost => Some("its deployment was just changed".to_owned()),
        })
    }

    /// After the end of an attempt that may have left a lock: the platform is asked while it still
    /// knows the job. One that still lives is looked at when somebody meets its lock.
    pub(crate) async fn prove_end(
        &self,
        due: Due,
        deployment: &Deployment,
        site: &Site,
    ) -> Result<(), LaunchError> {
        let may_have_locked = |attempt: &&Attempt| {
            let failed = |ended: &_| outcome_of(ended) != &Outcome::Succeeded;
            attempt.claim.is_some() && attempt.ended.as_ref().is_some_and(failed)
        };
        let Some(last) = deployment.attempts.last().filter(may_have_locked) else { return Ok(()) };
        let number = last.number;
        let mut proved = deployment.clone();
        if last.job_gone_at.is_none() && self.prove(&mut proved, number, site).await.is_ok() {
            proved.version += 1;
            // Whoever has changed it meanwhile comes by here as well.
            self.table.save_deployment(due.org, &proved, Wake::Nobody).await?;
        }
        Ok(())
    }

    /// Asks the platform about the job of an attempt that is over, and records that it is gone.
    ///
    /// # Errors
    ///
    /// What keeps it from being proved, for people.
    async fn prove(
        &self,
        deployment: &mut Deployment,
        number: u32,
        site: &Site,
    ) -> Result<(), String> {
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == number);
        let Some(attempt) = attempt.filter(|attempt| attempt.ended.is_some()) else {
            return Err("it still runs".to_owned());
        };
        if attempt.job_gone_at.is_some() {
            return Ok(());
        }
        let dispatcher = site.dispatcher.as_ref().map_err(Clone::clone)?;
        let handle = attempt.handle.clone();
        let job = JobRef { deployment: deployment.id, attempt: number, handle };
        let observation = dispatcher.observe(&job).await;
        match &observation {
            Observation::Gone(_) if is_proof(&observation, attempt, site) => {
                lifecycle::job_gone(deployment, number, self.clock.now());
                Ok(())
            }
            Observation::Gone(_) => Err("its runner was changed since it was launched, and where \
                                         that runs jobs now, its job is not known"
                .to_owned()),
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

/// Whether what the platform said proves that the attempt's job is gone. A runner that was changed
/// since may look in another place, where there is another job of that name, or none.
pub(crate) fn is_proof(observation: &Observation, attempt: &Attempt, site: &Site) -> bool {
    matches!(observation, Observation::Gone(_)) && site.launched(attempt)
}
