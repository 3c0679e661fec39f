//! After the end of a deployment: it is told, what its job left is cleared away, and what nobody waits
//! for is ended.

use crate::strays::Strays;
use crate::tend::Why;
use crate::{LaunchError, Launcher, last_job};
use canyon_dispatch::{Dispatcher, JobRef, Remains};
use canyon_domain::deployment::{Deployment, Status};
use canyon_store::deployment_lists::Due;
use std::sync::Arc;
use std::time::Duration;

/// After an end, how long one call waits for the job to be gone: it ends a moment after its result.
const FAREWELL: Duration = Duration::from_secs(2);
const FAREWELL_PAUSE: Duration = Duration::from_millis(100);
/// Where nobody comes back: five minutes of looks.
const STAY_LOOKS: u32 = 60;
/// Between two of them.
pub const STAY_PAUSE: Duration = Duration::from_secs(5);
/// How long after an end somebody comes back for a job that still lives. Its stop was tried before.
pub(crate) const COME_BACK: Duration = Duration::from_mins(15);

/// Until somebody comes back for an end that could not be told, or whose job lingers.
const AGAIN: Duration = Duration::from_mins(3);

/// What is left of a job, and who can clear it away.
enum Left {
    Nothing,
    Job(Arc<dyn Dispatcher>, JobRef),
}

impl Launcher {
    /// An end that was just told: what is left of its job may go.
    #[cfg(feature = "lambda")]
    pub(crate) async fn told(&self, due: Due, ended: &Deployment) -> Result<(), LaunchError> {
        crate::tend::in_time(due, Box::pin(self.close(due, ended, Why::Told))).await
    }

    /// The end is recorded: what is left of the job may go, and if nobody has told of the end in
    /// time, it is told now. After both nobody need come back.
    pub(crate) async fn close(
        &self,
        due: Due,
        deployment: &Deployment,
        why: Why,
    ) -> Result<(), LaunchError> {
        let now = self.clock.now();
        let overdue = deployment.due_at.is_some_and(|at| at <= now);
        if overdue && why != Why::Told {
            // First, so that what cannot be told, or lingers, waits behind what can be done.
            self.table.come_back(due.org, due.id, now + AGAIN).await?;
            self.tell_history(due, deployment).await?;
        }
        let left = self.forget(due, deployment, why).await?;
        let is_clear = matches!(left, Left::Nothing);
        if let Left::Job(dispatcher, job) = left
            && deployment.due_at.is_none()
        {
            self.stay(due, deployment.clone(), dispatcher, job);
        }
        let too_late = deployment.completed_at.is_none_or(|end| now >= end + COME_BACK);
        let told = overdue || why == Why::Told;
        if told && deployment.due_at.is_some() && (is_clear || too_late) {
            self.table.end_told(due.org, due.id).await?;
        }
        Ok(())
    }

    /// Nobody comes back for a deployment that is not due any more, as on a laptop none is after its
    /// end: this process stays until its job can be cleared away. Only the job is looked at. The rest
    /// was done before, and the runner is the one that was asked then.
    fn stay(&self, due: Due, deployment: Deployment, dispatcher: Arc<dyn Dispatcher>, job: JobRef) {
        let launcher = self.clone();
        tokio::spawn(async move {
            for _ in 0..STAY_LOOKS {
                tokio::time::sleep(STAY_PAUSE).await;
                if dispatcher.forget(&job).await == Remains::Nothing {
                    // It lived when its end was to be proved.
                    if let Err(error) = launcher.prove_gone(due, &deployment).await {
                        tracing::warn!(%error, deployment = %due.id, "cannot record that its job is gone");
                    }
                    return;
                }
            }
        });
    }

    async fn prove_gone(&self, due: Due, deployment: &Deployment) -> Result<(), LaunchError> {
        let site = self.site(due, deployment).await?;
        self.prove_end(due, deployment, &site).await
    }

    async fn forget(
        &self,
        due: Due,
        deployment: &Deployment,
        why: Why,
    ) -> Result<Left, LaunchError> {
        let Some(job) = last_job(deployment) else { return Ok(Left::Nothing) };
        let site = self.site(due, deployment).await?;
        self.prove_end(due, deployment, &site).await?;
        // Without it, nobody could clear away what is left.
        let Ok(dispatcher) = site.dispatcher else { return Ok(Left::Nothing) };
        if let Some(which) = strays(deployment, why) {
            self.end_strays(due.org, &deployment.runner, &dispatcher, which).await?;
        }
        let mut left = if why == Why::Told { FAREWELL } else { Duration::ZERO };
        loop {
            if dispatcher.forget(&job).await == Remains::Nothing {
                return Ok(Left::Nothing);
            }
            if left.is_zero() {
                return Ok(Left::Job(dispatcher, job));
            }
            tokio::time::sleep(FAREWELL_PAUSE).await;
            left = left.saturating_sub(FAREWELL_PAUSE);
        }
    }
}

/// What to look for after this end, if anything.
fn strays(deployment: &Deployment, why: Why) -> Option<Strays> {
    match why {
        // Its own job has delivered a result a moment ago. But where nobody comes back, what a process did not clear
        // away before its own end is found at a later one.
        Why::Ended => Some(Strays::OfLongEnded),
        Why::Due | Why::Told | Why::JobGone => {
            (deployment.status != Status::Succeeded).then_some(Strays::OfEnded)
        }
    }
}
