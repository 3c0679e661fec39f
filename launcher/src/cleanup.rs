//! After the end of a deployment: publishes the end, removes what its job left behind, and ends
//! orphaned jobs.

use crate::image_digest::lacks_digest;
use crate::orphaned_jobs::{OrphanedJobs, REMOVAL_RETRY_PERIOD};
use crate::reconcile::ReconcileTrigger;
use crate::{LaunchError, Launcher, last_job};
use canyon_dispatch::{Dispatcher, JobRef, RemovalOutcome};
use canyon_domain::deployment::{Deployment, Status};
use canyon_store::deployment_lists::Due;
use jiff::SignedDuration;
use std::sync::Arc;
use std::time::Duration;

/// How long one call waits for the job to exit after the end of its deployment. A job exits a
/// moment after its result.
const EXIT_WAIT: Duration = Duration::from_secs(2);
/// The first pause between two looks at it, which doubles: each look at a platform is a call of its API, whose rate is limited.
const FIRST_EXIT_PAUSE: Duration = Duration::from_millis(100);
/// How often this process observes a job that no other call will observe again: five minutes in
/// all.
const MAX_REMOVAL_RETRIES: u32 = 60;
/// The pause between two of these observations.
pub const REMOVAL_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// When the sweep retries an end that could not be published, or whose job still lives.
const CLEANUP_RETRY_AFTER: Duration = Duration::from_mins(3);

/// What is left of a job, and the dispatcher that can remove it.
enum Leftover {
    Nothing,
    Job(Arc<dyn Dispatcher>, JobRef),
}

/// What is still to be read of a job before it is removed.
#[derive(Clone, Copy, Debug)]
struct Remains {
    /// Its output; see [`Deployment::is_unsalvaged`].
    is_unsalvaged: bool,
    /// The digest of its image.
    lacks_image: bool,
}

impl Launcher {
    /// Removes what is left of the job, after the caller has published the deployment's end.
    #[cfg(feature = "lambda")]
    pub(crate) async fn clean_up_published(
        &self,
        due: Due,
        ended: &Deployment,
    ) -> Result<(), LaunchError> {
        crate::reconcile::within_time_limit(
            due,
            Box::pin(self.clean_up(due, ended, ReconcileTrigger::EndPublished)),
        )
        .await
    }

    /// Cleans up after a recorded end: removes what is left of the job, and publishes the end if
    /// that is overdue. After both, the deployment is no longer due.
    pub(crate) async fn clean_up(
        &self,
        due: Due,
        deployment: &Deployment,
        trigger: ReconcileTrigger,
    ) -> Result<(), LaunchError> {
        let now = self.clock.now();
        let overdue = deployment.due_at.is_some_and(|at| at <= now);
        if overdue && trigger != ReconcileTrigger::EndPublished {
            // Postpone first: an end that cannot be published, or a live job, must not delay other deployments.
            self.table.postpone_end(due.org, due.id, now + CLEANUP_RETRY_AFTER).await?;
            self.publish_history(due, deployment).await?;
        }
        let is_too_late = deployment
            .completed_at
            .is_none_or(|end| now >= end + deployment.kept_for() + REMOVAL_RETRY_PERIOD);
        let is_to_be_closed =
            (overdue || trigger == ReconcileTrigger::EndPublished) && deployment.due_at.is_some();
        if is_to_be_closed && is_too_late {
            // Before the job: a removal that fails each time must not keep the deployment due for ever.
            self.table.record_end_published(due.org, due.id).await?;
        }
        let left = self.remove_job(due, deployment, trigger).await?;
        let is_clear = matches!(left, Leftover::Nothing);
        if let Leftover::Job(dispatcher, job) = left
            && deployment.due_at.is_none()
        {
            let is_unsalvaged = deployment.to_salvage().is_some();
            let left = Remains { is_unsalvaged, lacks_image: lacks_digest(deployment) };
            self.keep_removing(due, left, deployment.kept_for(), dispatcher, job);
        }
        if is_to_be_closed && is_clear && !is_too_late {
            self.table.record_end_published(due.org, due.id).await?;
        }
        Ok(())
    }

    /// Keeps trying to remove a job in this process. On a laptop a deployment is not due after its
    /// end, so no sweep retries it.
    ///
    /// Only the job is observed, with the dispatcher that was used then: the rest was done before. If its output is still
    /// to be read (`is_unsalvaged`), that comes first.
    fn keep_removing(
        &self,
        due: Due,
        mut left: Remains,
        kept_for: SignedDuration,
        dispatcher: Arc<dyn Dispatcher>,
        job: JobRef,
    ) {
        let launcher = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(kept_for.unsigned_abs()).await;
            for _ in 0..MAX_REMOVAL_RETRIES {
                tokio::time::sleep(REMOVAL_RETRY_PAUSE).await;
                if left.is_unsalvaged && !launcher.prove_gone(due).await {
                    continue;
                }
                if left.lacks_image {
                    let recorded = launcher.record_image(due, &dispatcher, &job).await;
                    left.lacks_image = !recorded.unwrap_or_default();
                }
                if dispatcher.forget(&job).await == RemovalOutcome::Removed {
                    if !left.is_unsalvaged {
                        // The job still lived when the proof of its end was tried first.
                        launcher.prove_gone(due).await;
                    }
                    return;
                }
            }
        });
    }

    /// Tries once more to prove that the job is gone. Returns whether its remains may be removed.
    async fn prove_gone(&self, due: Due) -> bool {
        let proof = async {
            let Some(deployment) = self.table.deployment(due.org, due.id).await? else {
                return Ok(true);
            };
            let resolved = self.resolve_runner(due, &deployment).await?;
            self.prove_end(due, &deployment, &resolved).await
        };
        proof.await.unwrap_or_else(|error: LaunchError| {
            tracing::warn!(%error, deployment = %due.id, "cannot record that its job is gone");
            false
        })
    }

    async fn remove_job(
        &self,
        due: Due,
        deployment: &Deployment,
        trigger: ReconcileTrigger,
    ) -> Result<Leftover, LaunchError> {
        let Some(job) = last_job(deployment) else { return Ok(Leftover::Nothing) };
        let resolved = self.resolve_runner(due, deployment).await?;
        let may_remove = self.prove_end(due, deployment, &resolved).await?;
        // Without a dispatcher nothing can remove what is left.
        let Ok(dispatcher) = resolved.dispatcher.clone() else { return Ok(Leftover::Nothing) };
        if let Some(which) = orphaned_jobs_to_end(deployment, trigger) {
            self.end_orphaned_jobs(due.org, &deployment.runner, &resolved, which).await?;
        }
        let kept_until = deployment.completed_at.map(|end| end + deployment.kept_for());
        if !may_remove || kept_until.is_some_and(|until| self.clock.now() < until) {
            return Ok(Leftover::Job(dispatcher, job));
        }
        let mut lacks_image = lacks_digest(deployment);
        let mut left =
            if trigger == ReconcileTrigger::EndPublished { EXIT_WAIT } else { Duration::ZERO };
        let mut pause = FIRST_EXIT_PAUSE;
        loop {
            lacks_image = lacks_image && !self.record_image(due, &dispatcher, &job).await?;
            if dispatcher.forget(&job).await == RemovalOutcome::Removed {
                return Ok(Leftover::Nothing);
            }
            if left.is_zero() {
                return Ok(Leftover::Job(dispatcher, job));
            }
            tokio::time::sleep(pause.min(left)).await;
            left = left.saturating_sub(pause);
            pause *= 2;
        }
    }
}

/// Which orphaned jobs to look for after this end, if any.
fn orphaned_jobs_to_end(
    deployment: &Deployment,
    trigger: ReconcileTrigger,
) -> Option<OrphanedJobs> {
    match trigger {
        // The deployment's own job has just delivered a result. On a laptop, where no sweep retries, a later
        // end finds what a process did not remove before it exited.
        ReconcileTrigger::Ended => Some(OrphanedJobs::OfLongEnded),
        ReconcileTrigger::Due | ReconcileTrigger::EndPublished | ReconcileTrigger::JobGone => {
            (deployment.status != Status::Succeeded).then_some(OrphanedJobs::OfEnded)
        }
    }
}
