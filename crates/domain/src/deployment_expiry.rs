//! Decides whether a deployment, or its log, may be removed because the organization keeps it no longer.
//!
//! A decision stays right until it is applied: an environment never begins to refer to a deployment that ended a day ago
//! or earlier, but only to those that are accepted, launched or ended later.

use crate::attempt::{Attempt, Outcome};
use crate::deadline::ended_without_proof;
use crate::deployment::{Deployment, Status};
use crate::failure::FailureClass;
use crate::ids::DeploymentId;
use crate::inventory::Environment;
use crate::module_record::ModuleRecord;
use crate::resource::Resource;
use crate::retention::Retention;
use jiff::Timestamp;

/// What is to be removed of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Nothing.
    Nothing,
    /// Its log and its events.
    Logs {
        /// The days after which they are removed.
        days: u32,
    },
    /// The deployment, with everything that Canyon stores of it.
    Deployment {
        /// The days after which it is removed.
        days: u32,
    },
}

impl Retention {
    /// What of `deployment` is removed at `now`. `environment` is the environment of its project and name, if there is one.
    pub fn expiry(
        &self,
        deployment: &Deployment,
        environment: Option<&Environment>,
        now: Timestamp,
    ) -> Expiry {
        let environment = environment.filter(|found| found.uuid == deployment.env_uuid);
        let is_needed = environment.is_some_and(|found| found.needs(deployment));
        let ended = deployment.completed_at.filter(|_| deployment.is_settled() && !is_needed);
        let Some(ended) = ended else { return Expiry::Nothing };
        let is_over = |limit: Option<Timestamp>| limit.is_some_and(|limit| ended <= limit);
        if let Some(days) = self.deployments_days.filter(|_| is_over(self.deployments_before(now)))
        {
            return Expiry::Deployment { days };
        }
        let has_logs = deployment.logs_removed.is_none_or(|removal| removal.pending);
        match self.logs_days.filter(|_| has_logs && is_over(self.logs_before(now))) {
            Some(days) => Expiry::Logs { days },
            None => Expiry::Nothing,
        }
    }
}

impl Deployment {
    /// Whether Canyon has nothing more to do for it: it has ended, its end is published, no job of it may have lived on, and
    /// Canyon has read what its jobs left, or knows that this is impossible.
    fn is_settled(&self) -> bool {
        // Canyon ends a job that lives on only if it knows its deployment.
        let may_live = |attempt: &Attempt| {
            let ended = attempt.ended.as_ref();
            attempt.job_gone_at.is_none()
                && ended.is_some_and(|ended| ended_without_proof(attempt, ended.at))
        };
        self.status.is_terminal()
            && self.due_at.is_none()
            && !self.attempts.iter().any(|attempt| attempt.needs_its_job() || may_live(attempt))
    }

    /// Whether one of its jobs may have ended without freeing the lock on the state. Only a deployment that is stored can
    /// prove later that the lock's owner is dead; see [`crate::state_lock`]. A check for drift takes no lock.
    fn may_have_left_a_lock(&self) -> bool {
        self.mode.takes_turn()
            && self.kind().facts().has_state
            && self.attempts.iter().filter(|attempt| attempt.claim.is_some()).any(|attempt| {
                match attempt.ended.as_ref().map(|ended| &ended.outcome) {
                    Some(Outcome::Succeeded) => false,
                    Some(Outcome::Failed(failure)) => failure.class != FailureClass::User,
                    Some(Outcome::Cancelled) | None => true,
                }
            })
    }
}

impl ModuleRecord {
    fn needed_deployments(&self) -> impl Iterator<Item = DeploymentId> {
        let state = self.state.as_ref();
        let named = [
            self.last_success,
            self.applied,
            self.applied_before,
            self.unfinished(),
            state.and_then(|state| state.unwritten.as_ref()).map(|unwritten| unwritten.by),
            state.and_then(|state| state.reported.as_ref()).map(|reported| reported.by),
        ];
        named.into_iter().flatten()
    }
}

impl Environment {
    /// The deployments that it refers to, which stay however old they are.
    pub fn needed_deployments(&self) -> impl Iterator<Item = DeploymentId> {
        let of_modules = self.modules().flat_map(|(_, module)| module.needed_deployments());
        let of_resources = self.resources.iter().flat_map(Resource::needed_deployments);
        let of_drift = self.drift.iter().flat_map(|drift| [drift.check, drift.checking]);
        self.removed_by.into_iter().chain(of_modules).chain(of_resources).chain(of_drift.flatten())
    }

    /// Whether the environment needs this ended deployment of it: what users read, repeat or destroy by it, or what
    /// Canyon must know before the next run.
    fn needs(&self, deployment: &Deployment) -> bool {
        let is_success = deployment.status == Status::Succeeded && deployment.changes_state();
        let module = self.module_of(deployment);
        match module.and_then(|module| module.last_success) {
            _ if self.needed_deployments().any(|id| id == deployment.id) => true,
            // A later success has locked the state, so no older lock is left.
            Some(last) => deployment.id > last && deployment.may_have_left_a_lock(),
            // Earlier versions of Canyon did not record which success was the last.
            None => is_success || deployment.may_have_left_a_lock(),
        }
    }
}

#[cfg(test)]
#[path = "deployment_expiry_tests.rs"]
mod tests;
