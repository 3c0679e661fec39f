//! Orphaned jobs: jobs that still run on a platform although their attempt has ended.
//!
//! If the platform's answer to a start was lost and a deadline ended the attempt, the platform may
//! still create the job minutes later. Its runner can claim nothing, but it costs money until it
//! ends.

use crate::resolved_runner::ResolvedRunner;
use crate::{LaunchError, Launcher};
use canyon_dispatch::{JobRef, StopMode};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{OrgUuid, RunnerId};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long after an end the sweep still retries the removal of a live job. Its stop was tried
/// before.
pub(crate) const REMOVAL_RETRY_PERIOD: Duration = Duration::from_mins(15);

/// The minimum interval between two lists of one runner's jobs by one process, because a list costs
/// requests.
const LIST_INTERVAL: Duration = Duration::from_mins(10);

/// How long after an end what a job left stays where it is, if it could not be read.
const REMAINS_KEPT: Duration = Duration::from_hours(7 * 24);

/// Limit of ending the jobs that a list found. The next list finds the rest.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Which jobs count as orphaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OrphanedJobs {
    /// Jobs of every deployment that has ended.
    OfEnded,
    /// Jobs of deployments that ended a while ago: such a job would have exited by itself by now.
    OfLongEnded,
}

/// When each runner's jobs were last listed, for each kind separately: the list that every end
/// triggers must not delay the list that only a failure triggers.
#[derive(Debug, Default)]
pub struct LastJobLists(Mutex<HashMap<(OrgUuid, RunnerId, OrphanedJobs), Timestamp>>);

impl LastJobLists {
    /// Whether a new list is due; if so, records that it is made now.
    fn begin(&self, key: (OrgUuid, RunnerId, OrphanedJobs), now: Timestamp) -> bool {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = lists.get(&key).copied().unwrap_or(Timestamp::MIN);
        let begins = now >= last.checked_add(LIST_INTERVAL).unwrap_or(Timestamp::MAX);
        if begins {
            lists.insert(key, now);
        }
        begins
    }
}

impl Launcher {
    /// Ends the jobs that the runner's platform still has for ended attempts. Called after an end
    /// that may have left one.
    pub(crate) async fn end_orphaned_jobs(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
        resolved: &ResolvedRunner,
        which: OrphanedJobs,
    ) -> Result<(), LaunchError> {
        let Ok(dispatcher) = &resolved.dispatcher else { return Ok(()) };
        let now = self.clock.now();
        if !self.last_job_lists.begin((org, runner.clone(), which), now) {
            return Ok(());
        }
        let until = match which {
            OrphanedJobs::OfEnded => now,
            OrphanedJobs::OfLongEnded => now - REMOVAL_RETRY_PERIOD,
        };
        let jobs = match dispatcher.jobs().await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(%error, %runner, "cannot list the runner's jobs");
                return Ok(());
            }
        };
        let ends = self.end_jobs_of_ended_attempts(org, jobs, resolved, until);
        tokio::time::timeout(END_TIMEOUT, ends).await.unwrap_or_else(|_| {
            tracing::warn!(%runner, "ending orphaned jobs takes too long; the next check continues");
            Ok(())
        })
    }

    async fn end_jobs_of_ended_attempts(
        &self,
        org: OrgUuid,
        jobs: Vec<JobRef>,
        resolved: &ResolvedRunner,
        until: Timestamp,
    ) -> Result<(), LaunchError> {
        let Ok(dispatcher) = &resolved.dispatcher else { return Ok(()) };
        for job in jobs {
            // Jobs of deployments that the table does not contain belong to another installation.
            let Some(deployment) = self.table.deployment(org, job.deployment).await? else {
                continue;
            };
            let kept = deployment.kept_for();
            let has_just_ended = deployment.completed_at.is_some_and(|end| end + kept > until);
            if has_ended(&deployment, &job) && !has_just_ended {
                tracing::warn!(?job, "ending an orphaned job");
                if let Err(error) = dispatcher.stop(&job, StopMode::Kill).await {
                    tracing::warn!(%error, ?job, "cannot end the orphaned job");
                }
                let is_old = deployment
                    .completed_at
                    .is_some_and(|end| end + REMAINS_KEPT <= self.clock.now());
                // The next launch in its environment reads what it left.
                let is_unread =
                    deployment.to_salvage().is_some_and(|attempt| attempt.number == job.attempt);
                if !is_unread || is_old {
                    dispatcher.forget(&job).await;
                }
            }
        }
        Ok(())
    }
}

/// Whether the job's attempt has ended.
fn has_ended(deployment: &Deployment, job: &JobRef) -> bool {
    let open = deployment.open_attempt().map(|attempt| attempt.number);
    deployment.status.is_terminal() || open.is_some_and(|number| number > job.attempt)
}
