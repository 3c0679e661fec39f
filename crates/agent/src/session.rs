//! Opens the agent's session, and opens a new one when Canyon does not know the present one any more.

use crate::agent_loop::AgentLoop;
use crate::backoff::{Backoff, jittered};
use crate::connection::ConnectionError;
use crate::exit::Exit;
use canyon_api::agent::{JobKey, OpenSession, PROTOCOL, SessionOpened};
use canyon_api::client::MAX_RETRY_AFTER;
use canyon_domain::agent::Adoption;
use canyon_domain::agent_job::MAX_FOUND_JOBS;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_identity::system::System;
use std::time::Duration;

/// The pause between two tries of a process that stands by.
const STANDBY_PAUSE: Duration = Duration::from_secs(10);
/// The pause between two tries of an agent that is not adopted yet, unless Canyon asks for a longer one.
const ADOPTION_PAUSE: Duration = Duration::from_secs(2);

impl AgentLoop {
    /// Opens a session, and retries until it succeeds or cannot succeed any more.
    pub(crate) async fn open(&mut self) -> Result<SessionOpened, Exit> {
        let mut backoff = Backoff::default();
        let mut logged_pending = false;
        // Generated once, so that the request may be repeated after a lost answer.
        let mut instance = System.id(System.now()).to_string();
        loop {
            self.status.loop_turned();
            let pause = match self.ask_for_session(&instance).await {
                Ok(opened) if opened.session.is_some() => {
                    for warning in &opened.warnings {
                        tracing::warn!("{warning}");
                    }
                    self.stands_by = false;
                    return Ok(opened);
                }
                Ok(opened) => {
                    backoff.reset();
                    self.status.answered(None);
                    if opened.state == Adoption::Rejected {
                        return Err(Exit::Rejected(format!(
                            "agent `{}` was rejected",
                            self.settings.name
                        )));
                    }
                    if !logged_pending {
                        logged_pending = true;
                        for warning in &opened.warnings {
                            tracing::warn!("{warning}");
                        }
                        self.log_pending();
                    }
                    let wanted = Duration::from_millis(opened.pause_ms)
                        .clamp(ADOPTION_PAUSE, MAX_RETRY_AFTER);
                    jittered(wanted)
                }
                Err(Refusal::Temporary(reason, pause)) => {
                    tracing::warn!("{reason}; retrying");
                    self.status.record_error(&reason);
                    backoff.pause_of(pause)
                }
                Err(Refusal::Superseded(reason)) => {
                    self.stand_by(&reason);
                    backoff.reset();
                    // Canyon may have ended the session of this instance for good.
                    instance = System.id(System.now()).to_string();
                    jittered(STANDBY_PAUSE)
                }
                Err(Refusal::Final(exit)) => return Err(exit),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.asked(1) => return Err(Exit::Done),
            }
        }
    }

    /// Stands by: another process has the agent's session. This process stops to watch the jobs, and tries to open a session
    /// until the other process is gone. So nothing has to restart it, and two processes of one name do not take turns.
    pub(crate) fn stand_by(&mut self, reason: &str) {
        if !self.stands_by {
            tracing::warn!(
                "{reason}. This process stands by, and continues when the other one is gone"
            );
        }
        self.stands_by = true;
        self.let_go(reason);
    }

    /// Ends what the agent does in this organization. Its jobs go on; the next session finds them.
    pub(crate) fn let_go(&mut self, reason: &str) {
        self.session.send_replace(None);
        self.unconfirmed.keep(|_| false);
        let jobs: Vec<_> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.drop_job(&job);
        }
        self.reap();
        self.status.answered(None);
        self.status.record_error(reason);
    }

    /// Whether it may wait for the end of the process that superseded it. An agent for one job has nothing to wait for.
    pub(crate) fn may_stand_by(&self, error: &ConnectionError) -> bool {
        error.may_stand_by() && !self.settings.single && !self.settings.reserved
    }

    fn log_pending(&self) {
        let (name, org) = (&self.settings.name, &self.served.org);
        let fingerprint = self.api.fingerprint().unwrap_or_default();
        tracing::warn!(
            fingerprint,
            "agent `{name}` is pending. Compare its fingerprint with the one that Canyon shows, then run: canyon \
             adopt agent {name} (organization `{org}`)"
        );
        tracing::warn!(
            "Canyon gives the same answer in other cases. If `canyon list agents --pending` does not show `{name}` with this \
             fingerprint within a minute, check these: the organization `{org}` (CANYON_ORG, CANYON_RUNNER_PATH); whether \
             another agent has the name `{name}` (canyon get agent {name}; forget that one, or set another \
             CANYON_AGENT_NAME here); whether the organization refuses such agents (canyon get organization; start this one \
             with a token, a service account or the runner's key, or allow them: canyon update organization \
             --set=agent_requests=allowed)"
        );
    }

    async fn ask_for_session(&mut self, instance: &str) -> Result<SessionOpened, Refusal> {
        let temporary = |reason: String| Refusal::Temporary(reason, None);
        let place = self.kind.platform_id().await.map_err(|error| temporary(error.to_string()))?;
        let found = self.kind.found().await.map_err(|error| temporary(error.to_string()))?;
        let found = jobs_to_name(found, |job| self.jobs.contains_key(job));
        let body = OpenSession {
            instance: instance.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            serves: vec![self.kind.serves()],
            platform_id: place,
            labels: self.settings.labels.clone(),
            runner: self.served.runner.clone(),
            run_untagged_jobs: self.settings.run_untagged_jobs,
            reserved: self.settings.reserved,
            shared: self.settings.is_shared(),
            standby: self.stands_by,
            concurrency: self.places.most(),
            public_key: self.api.public_key(),
            found,
        };
        self.api.open(&body).await.map_err(|error| {
            if self.may_stand_by(&error) {
                return Refusal::Superseded(error.to_string());
            }
            if error.is_superseded() {
                return Refusal::Final(Exit::Superseded(error.to_string()));
            }
            if error.is_rejection() || (error.is_permanent() && self.jobs.is_empty()) {
                return Refusal::Final(Exit::Rejected(error.to_string()));
            }
            Refusal::Temporary(error.to_string(), error.pause())
        })
    }
}

/// Selects the jobs that the request names, of those on the platform. If there are too many: the oldest ones that this
/// process does not watch.
///
/// Canyon answers with the jobs that the agent holds, whether they are named or not. The request names jobs so that
/// Canyon can point out orphaned ones, and these are the old ones. Jobs that are left out wait for the next session, and
/// lose nothing: Canyon itself tells the runner of such a job that its attempt is over, so only its remains stay longer.
fn jobs_to_name(mut found: Vec<JobKey>, is_watched: impl Fn(&JobKey) -> bool) -> Vec<JobKey> {
    if found.len() > MAX_FOUND_JOBS {
        tracing::warn!(
            found = found.len(),
            named = MAX_FOUND_JOBS,
            "names only the oldest of the jobs that it found; the next session names others"
        );
        // A deployment's id begins with the time.
        found.sort_unstable_by_key(|job| (is_watched(job), job.deployment, job.attempt));
        found.truncate(MAX_FOUND_JOBS);
    }
    found
}

enum Refusal {
    /// A retry may succeed, after the pause that Canyon asks for, if it asks for one.
    Temporary(String, Option<Duration>),
    /// Another process has the agent's session.
    Superseded(String),
    /// The process ends.
    Final(Exit),
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::ids::{DeploymentId, RunnerUuid};
    use std::collections::HashSet;
    use uuid::Uuid;

    fn job(number: usize) -> JobKey {
        let deployment = DeploymentId(Uuid::from_u128(u128::try_from(number).unwrap()));
        JobKey { runner: RunnerUuid(Uuid::nil()), deployment, attempt: 1 }
    }

    #[test]
    fn of_too_many_jobs_the_oldest_that_are_not_watched_are_named() {
        let few: Vec<_> = (0..MAX_FOUND_JOBS).rev().map(job).collect();
        assert_eq!(jobs_to_name(few.clone(), |_| false), few);
        let many: Vec<_> = (0..MAX_FOUND_JOBS + 500).rev().map(job).collect();
        let watched: HashSet<_> = (0..100).map(job).collect();
        let named = jobs_to_name(many, |job| watched.contains(job));
        assert_eq!(named, (100..MAX_FOUND_JOBS + 100).map(job).collect::<Vec<_>>());
    }
}
