//! Jobs that Canyon hands out by the published polling protocol of remote runners.
//!
//! A poller cannot acknowledge a job in that protocol: Canyon answers "create this Job" once, and later
//! "check this Job". So Canyon hands a job out once, to one session, and records that session as its holder.
//! If the answer is lost, no report arrives. After a pause Canyon asks the poller to check the job, and a
//! poller that finds no Job reports that.

use crate::agent_job::{AgentJob, DesiredState, JobHolder, JobRefusal, OFFER_TIMEOUT};
use crate::deadline::Observation;
use crate::failure::Failure;
use crate::ids::AgentId;
pub use crate::manifest::{CLAIM_CODE, Manifest, PolledJob};
use jiff::Timestamp;
use std::time::Duration;

/// How long after a cancel a report "the Job is not there" proves nothing: the Job is deleted at once, and
/// its pod may still run. It is the longest termination grace of a pod (the longest `stop_seconds`) twice,
/// the second time for a slow deletion. It is shorter than the time for which a run waits for the proof that
/// a lock is abandoned.
const POD_TERMINATION_GRACE: Duration = Duration::from_mins(4);

/// The next message to a poller about a job that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMessage {
    /// Check whether the Job exists.
    Check,
    /// Delete the Job.
    Cancel,
}

impl AgentJob {
    /// A poller takes the job that it is offered, and receives the Job, or the reason why there is none.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] under the conditions of [`AgentJob::take`].
    pub fn assign_to_poller(
        &mut self,
        agent: &AgentId,
        session: u64,
        platform_id: &str,
        now: Timestamp,
    ) -> Result<Option<Result<Manifest, String>>, JobRefusal> {
        let manifest = self.manifest.clone();
        self.take(agent, session, platform_id, now)?;
        if let Some(Ok(manifest)) = &manifest {
            let (name, namespace) = (manifest.name.clone(), manifest.namespace.clone());
            self.polled =
                Some(PolledJob { name, namespace, last_message_at: now, check_pending: false });
        }
        Ok(manifest)
    }

    /// Asks the poller to check the job, if no message was sent for [`OFFER_TIMEOUT`], or, after a cancel, once its
    /// pod must have ended. Returns whether that is new.
    pub fn request_check(&mut self, now: Timestamp) -> bool {
        if self.desired > self.applied || self.is_seen_gone() {
            return false;
        }
        let pause =
            if self.applied == DesiredState::Run { OFFER_TIMEOUT } else { POD_TERMINATION_GRACE };
        let due = |polled: &&mut PolledJob| {
            !polled.check_pending && now >= polled.last_message_at + pause
        };
        let Some(polled) = self.polled.as_mut().filter(due) else { return false };
        polled.check_pending = true;
        true
    }

    /// The next message to the poller, if there is one. It is recorded as delivered: the caller stores the
    /// job before it sends the message.
    pub fn next_message(&mut self, now: Timestamp) -> Option<PollMessage> {
        let polled = self.polled.as_mut()?;
        let message = if self.desired > self.applied {
            self.applied = self.desired;
            PollMessage::Cancel
        } else if polled.check_pending {
            PollMessage::Check
        } else {
            return None;
        };
        polled.check_pending = false;
        // A check after a cancel does not restart the pod's termination grace.
        if message == PollMessage::Cancel || self.applied == DesiredState::Run {
            polled.last_message_at = now;
        }
        Some(message)
    }

    /// The job's poller reports that the job failed or is not there. Returns whether the report is new and
    /// counts.
    pub fn report_failed(&mut self, failure: Failure, now: Timestamp) -> bool {
        if self.is_seen_gone() || self.pod_may_still_run(now) {
            return false;
        }
        let Some(JobHolder { agent, session, .. }) = self.holder.clone() else { return false };
        self.report(&agent, session, Observation::Gone(Some(failure)), None, now).is_ok()
    }

    /// The job was taken and cannot be handed out: the poller has nothing to do for it, and only its record
    /// is left.
    pub fn record_undeliverable(&mut self, failure: Failure, now: Timestamp) {
        self.report_failed(failure, now);
        self.applied = DesiredState::Forget;
    }

    /// Whether only the record of the job is left. For a job that was handed out, delivery of the last cancel
    /// proves nothing: the poller may not have received it, and without its record the job would count as
    /// gone.
    pub fn is_removed(&self) -> bool {
        self.applied == DesiredState::Forget && (self.polled.is_none() || self.is_seen_gone())
    }

    /// Whether a cancel was sent so recently that the pod may still run. A cancel that no poller has received
    /// yet does not remove the job.
    fn pod_may_still_run(&self, now: Timestamp) -> bool {
        let is_in_grace = |polled: &PolledJob| now < polled.last_message_at + POD_TERMINATION_GRACE;
        self.applied > DesiredState::Run && self.polled.as_ref().is_some_and(is_in_grace)
    }

    fn is_seen_gone(&self) -> bool {
        self.reported.as_ref().is_some_and(|seen| matches!(seen.observation, Observation::Gone(_)))
    }
}

#[cfg(test)]
#[path = "polled_job_tests.rs"]
mod tests;
