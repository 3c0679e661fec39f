//! Jobs that outlived what was known of them.
//!
//! A start whose answer was lost, after which Canyon ended the attempt by a deadline, may have made a
//! job all the same, minutes later. Its runner can claim nothing; but it costs money until it ends.

use crate::farewell::COME_BACK;
use crate::{LaunchError, Launcher};
use canyon_dispatch::{Dispatcher, JobRef, StopMode};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{OrgUuid, RunnerId};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks at the jobs of one runner, by one process: a list costs its platform something.
const PAUSE: Duration = Duration::from_mins(10);

/// For the end of those that are found. What is left is ended after the next look.
const PATIENCE: Duration = Duration::from_secs(30);

/// The jobs of which deployments are strays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Strays {
    /// Of all that have ended.
    OfEnded,
    /// Of those that ended a while ago: by themselves they would have ended by now.
    OfLongEnded,
}

/// When each runner's jobs were last looked through, for either. The look that every end asks for must not stand in the
/// way of the one that few ask for.
#[derive(Debug, Default)]
pub struct LastLooks(Mutex<HashMap<(OrgUuid, RunnerId, Strays), Timestamp>>);

impl LastLooks {
    /// Whether it is time again; if so, it has been looked now.
    fn begin(&self, look: (OrgUuid, RunnerId, Strays), now: Timestamp) -> bool {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = looks.get(&look).copied().unwrap_or(Timestamp::MIN);
        let begins = now >= last.checked_add(PAUSE).unwrap_or(Timestamp::MAX);
        if begins {
            looks.insert(look, now);
        }
        begins
    }
}

impl Launcher {
    /// Ends the jobs that the runner's platform still has for attempts that are over. Called after an
    /// end that may have left one.
    pub(crate) async fn end_strays(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
        dispatcher: &Arc<dyn Dispatcher>,
        which: Strays,
    ) -> Result<(), LaunchError> {
        let now = self.clock.now();
        if !self.last_looks.begin((org, runner.clone(), which), now) {
            return Ok(());
        }
        let until = match which {
            Strays::OfEnded => now,
            Strays::OfLongEnded => now - COME_BACK,
        };
        let jobs = match dispatcher.jobs().await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(%error, %runner, "cannot look through the runner's jobs");
                return Ok(());
            }
        };
        let ends = self.end_those_over(org, jobs, dispatcher, until);
        tokio::time::timeout(PATIENCE, ends).await.unwrap_or_else(|_| {
            tracing::warn!(%runner, "to end the jobs whose attempts are over takes too long");
            Ok(())
        })
    }

    async fn end_those_over(
        &self,
        org: OrgUuid,
        jobs: Vec<JobRef>,
        dispatcher: &Arc<dyn Dispatcher>,
        until: Timestamp,
    ) -> Result<(), LaunchError> {
        for job in jobs {
            // Jobs of deployments that the table does not know are another installation's.
            let Some(deployment) = self.table.deployment(org, job.deployment).await? else {
                continue;
            };
            let has_just_ended = deployment.completed_at.is_some_and(|end| end > until);
            if is_over(&deployment, &job) && !has_just_ended {
                tracing::warn!(?job, "ending a job whose attempt is over");
                if let Err(error) = dispatcher.stop(&job, StopMode::Kill).await {
                    tracing::warn!(%error, ?job, "cannot end it");
                }
                dispatcher.forget(&job).await;
            }
        }
        Ok(())
    }
}

/// Whether nobody waits for this job any more.
fn is_over(deployment: &Deployment, job: &JobRef) -> bool {
    let open = deployment.open_attempt().map(|attempt| attempt.number);
    deployment.status.is_terminal() || open.is_some_and(|number| number > job.attempt)
}
