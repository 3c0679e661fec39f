//! The session: opened, and opened anew when Canyon does not know of it any more.

use crate::backoff::{Backoff, LONGEST_PAUSE, jittered};
use crate::desk::Desk;
use crate::exit::Exit;
use crate::line::LineError;
use canyon_api::agent::{JobKey, OpenSession, PROTOCOL, SessionOpened};
use canyon_domain::agent::Adoption;
use canyon_domain::agent_job::MAX_FOUND;
use canyon_domain::seam::{Clock as _, Entropy as _};
use canyon_identity::system::System;
use std::time::Duration;

/// Between two openings of a process that stands by.
const STANDBY: Duration = Duration::from_secs(10);
/// Between two questions whether somebody has adopted the agent, unless Canyon says otherwise.
const ADOPTION: Duration = Duration::from_secs(2);

impl Desk {
    /// Opens a session, however long that takes.
    pub(crate) async fn open(&mut self) -> Result<SessionOpened, Exit> {
        let mut backoff = Backoff::default();
        let mut told = false;
        // Drawn once: so an opening whose answer was lost may be repeated.
        let mut instance = System.id(System.now()).to_string();
        loop {
            self.status.turned();
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
                    self.status.heard(None);
                    if opened.state == Adoption::Rejected {
                        return Err(Exit::Rejected(format!(
                            "agent `{}` was rejected",
                            self.settings.name
                        )));
                    }
                    if !told {
                        told = true;
                        for warning in &opened.warnings {
                            tracing::warn!("{warning}");
                        }
                        self.say_pending();
                    }
                    let wanted =
                        Duration::from_millis(opened.pause_ms).clamp(ADOPTION, LONGEST_PAUSE);
                    jittered(wanted)
                }
                Err(Refusal::Passing(reason, pause)) => {
                    tracing::warn!("{reason}; trying again");
                    self.status.trouble(&reason);
                    backoff.pause_of(pause)
                }
                Err(Refusal::AnotherLives(reason)) => {
                    self.stand_by(&reason);
                    backoff.reset();
                    // The session of the opening that was refused may be over for good.
                    instance = System.id(System.now()).to_string();
                    jittered(STANDBY)
                }
                Err(Refusal::Lasting(exit)) => return Err(exit),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.asked(1) => return Err(Exit::Done),
            }
        }
    }

    /// Another process speaks for the agent: this one leaves the jobs alone, and asks for a session until that one is
    /// gone. So nothing has to start it again, and two processes of one name do not take turns.
    pub(crate) fn stand_by(&mut self, reason: &str) {
        if !self.stands_by {
            tracing::warn!(
                "{reason}. This process stands by, and goes on when the other one is gone"
            );
        }
        self.stands_by = true;
        self.session.send_replace(None);
        self.in_doubt.keep(|_| false);
        let jobs: Vec<_> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.drop_job(&job);
        }
        self.reap();
        self.status.heard(None);
        self.status.trouble(reason);
    }

    /// Whether it may wait for the end of the process that superseded it. One that is for one job has nothing to wait for.
    pub(crate) fn may_stand_by(&self, error: &LineError) -> bool {
        error.may_stand_by() && !self.settings.single && !self.settings.reserved
    }

    fn say_pending(&self) {
        let (name, org) = (&self.settings.name, &self.settings.org);
        let fingerprint = self.line.fingerprint().unwrap_or_default();
        tracing::warn!(
            fingerprint,
            "agent `{name}` waits to be adopted. Compare its fingerprint with what Canyon shows, then: canyon \
             adopt agent {name} (organization `{org}`)"
        );
        tracing::warn!(
            "Canyon answers the same in other cases. If `canyon list agents --pending` does not show `{name}` with this \
             fingerprint within a minute: is the organization `{org}` (CANYON_ORG, CANYON_RUNNER_PATH)? Is another agent \
             called `{name}` (canyon get agent {name}; forget it, or give this one another CANYON_AGENT_NAME)? Does the \
             organization refuse such agents (canyon get organization; start this one with a token, a service account or \
             the runner's key, or allow them: canyon update organization --set=agent_requests=allowed)?"
        );
    }

    async fn ask_for_session(&mut self, instance: &str) -> Result<SessionOpened, Refusal> {
        let passing = |reason: String| Refusal::Passing(reason, None);
        let place = self.kind.place().await.map_err(|error| passing(error.to_string()))?;
        let found = self.kind.found().await.map_err(|error| passing(error.to_string()))?;
        let found = to_name(found, |job| self.jobs.contains_key(job));
        let body = OpenSession {
            instance: instance.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            serves: vec![self.kind.serves()],
            place,
            labels: self.settings.labels.clone(),
            runner: self.settings.runner.clone(),
            run_untagged_jobs: self.settings.run_untagged_jobs,
            reserved: self.settings.reserved,
            standby: self.stands_by,
            concurrency: self.concurrency(),
            public_key: self.line.public_key(),
            found,
        };
        self.line.open(&body).await.map_err(|error| {
            if self.may_stand_by(&error) {
                return Refusal::AnotherLives(error.to_string());
            }
            if error.is_superseded() {
                return Refusal::Lasting(Exit::Superseded(error.to_string()));
            }
            if error.is_rejection() || (error.is_lasting() && self.jobs.is_empty()) {
                return Refusal::Lasting(Exit::Rejected(error.to_string()));
            }
            Refusal::Passing(error.to_string(), error.pause())
        })
    }
}

/// Of the jobs that the place has, those to name: of too many, the oldest that this process does not watch.
///
/// Canyon tells which jobs the agent holds, named or not. They are named for those that nobody waits for, which are
/// the old ones, so that these are cleared away. What is left over waits for the next opening, and loses nothing by it:
/// the runner of such a job is told by Canyon itself that it is over, so only remains are there for longer.
fn to_name(mut found: Vec<JobKey>, is_in_hand: impl Fn(&JobKey) -> bool) -> Vec<JobKey> {
    if found.len() > MAX_FOUND {
        tracing::warn!(
            found = found.len(),
            named = MAX_FOUND,
            "names only the oldest jobs that it found; the next session names others"
        );
        // The id of a deployment begins with the time.
        found.sort_unstable_by_key(|job| (is_in_hand(job), job.deployment, job.attempt));
        found.truncate(MAX_FOUND);
    }
    found
}

enum Refusal {
    /// It may go better later, after the pause that is asked for if there is one.
    Passing(String, Option<Duration>),
    /// Another process speaks for the agent.
    AnotherLives(String),
    /// The process ends.
    Lasting(Exit),
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
    fn of_more_jobs_than_an_opening_takes_the_oldest_that_nobody_watches_are_named() {
        let few: Vec<_> = (0..MAX_FOUND).rev().map(job).collect();
        assert_eq!(to_name(few.clone(), |_| false), few);
        let many: Vec<_> = (0..MAX_FOUND + 500).rev().map(job).collect();
        let watched: HashSet<_> = (0..100).map(job).collect();
        let named = to_name(many, |job| watched.contains(job));
        assert_eq!(named, (100..MAX_FOUND + 100).map(job).collect::<Vec<_>>());
    }
}
