//! Jobs that are handed out by the published polling protocol of remote runners.
//!
//! That protocol has no word for "I have it": whoever polls is told to create a job, and later asked to look
//! after it. So a job is handed out once, to one session, and taken by that. If the answer is lost, nobody
//! hears of the job again, and the next message about it is to look: whoever finds nothing says so.

use crate::agent_job::{AgentJob, OFFER, Refused, Taken, Wish};
use crate::deadline::Observation;
use crate::failure::Failure;
use crate::ids::AgentId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Stands in a [`Manifest`] where the claim code belongs, which is stored nowhere.
pub const CLAIM_CODE: &str = "(claim code)";

/// After a cancel the Job is gone at once, and its pod ends in its own time: so long "it is not there" says nothing.
/// That is the longest grace of a pod, which is the longest `stop_seconds`, and as much for whoever was slow to delete
/// it; and less than a run waits for the proof that a lock was left.
const LINGER: Duration = Duration::from_mins(4);

/// The Kubernetes Job of an attempt, for those who create what they are handed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The Job's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The Job, with [`CLAIM_CODE`] in it.
    pub job: Value,
}

/// A job that was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// The Job's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// When something was last said of it; once it was cancelled, when that was last said.
    pub said_at: Timestamp,
    /// Whether it is to be looked after.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub look: bool,
}

/// What there is to say of a job that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// See whether it is there.
    Look,
    /// Delete it.
    Cancel,
}

impl Manifest {
    /// The Job with its claim code.
    pub fn with_claim_code(mut self, code: &str) -> Value {
        fill(&mut self.job, code);
        self.job
    }
}

fn fill(value: &mut Value, code: &str) {
    match value {
        Value::String(text) if text == CLAIM_CODE => code.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, code)),
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, code)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl AgentJob {
    /// A poller takes what it is offered, and is handed the Job.
    ///
    /// # Errors
    ///
    /// [`Refused`], as when an agent takes it.
    pub fn hand_out(
        &mut self,
        agent: &AgentId,
        session: u64,
        place: &str,
        now: Timestamp,
    ) -> Result<Option<Result<Manifest, String>>, Refused> {
        let manifest = self.manifest.clone();
        self.take(agent, session, place, now)?;
        if let Some(Ok(manifest)) = &manifest {
            let (name, namespace) = (manifest.name.clone(), manifest.namespace.clone());
            self.polled = Some(Polled { name, namespace, said_at: now, look: false });
        }
        Ok(manifest)
    }

    /// Nobody has heard of the job: whoever polls is to look after it, not more often than this; if it was cancelled,
    /// once its pod must have ended. Returns whether that is new.
    pub fn look_after(&mut self, now: Timestamp) -> bool {
        if self.wish > self.done || self.is_seen_gone() {
            return false;
        }
        let pause = if self.done == Wish::Run { OFFER } else { LINGER };
        let due = |polled: &&mut Polled| !polled.look && now >= polled.said_at + pause;
        let Some(polled) = self.polled.as_mut().filter(due) else { return false };
        polled.look = true;
        true
    }

    /// What there is to say of a job that was handed out; it counts as said.
    pub fn say(&mut self, now: Timestamp) -> Option<Say> {
        let polled = self.polled.as_mut()?;
        let what = if self.wish > self.done {
            self.done = self.wish;
            Say::Cancel
        } else if polled.look {
            Say::Look
        } else {
            return None;
        };
        polled.look = false;
        // Whoever looks does not make the pod's time begin anew.
        if what == Say::Cancel || self.done == Wish::Run {
            polled.said_at = now;
        }
        Some(what)
    }

    /// Whoever watches the job says that it failed, or is not there. Returns whether that is new, and counts.
    pub fn failed(&mut self, failure: Failure, now: Timestamp) -> bool {
        if self.is_seen_gone() || self.may_linger(now) {
            return false;
        }
        let Some(Taken { agent, session, .. }) = self.taken.clone() else { return false };
        self.report(&agent, session, Observation::Gone(Some(failure)), None, now).is_ok()
    }

    /// It was taken, and cannot be handed out: nobody has anything to do for it, and what is left of it is its
    /// record.
    pub fn withheld(&mut self, failure: Failure, now: Timestamp) {
        self.failed(failure, now);
        self.done = Wish::Forget;
    }

    /// Whether nothing is left of the job but its record. The last word about one that was handed out says nothing of
    /// that: who was to delete it may not have heard, and without its record it would count as gone.
    pub fn is_cleared_away(&self) -> bool {
        self.done == Wish::Forget && (self.polled.is_none() || self.is_seen_gone())
    }

    /// Whether somebody was told to delete the Job so lately that its pod may run still, wherever that is looked for.
    /// A cancel that nobody was told yet makes nothing go: it counts as said before it is.
    fn may_linger(&self, now: Timestamp) -> bool {
        let lingers = |polled: &Polled| now < polled.said_at + LINGER;
        self.done > Wish::Run && self.polled.as_ref().is_some_and(lingers)
    }

    fn is_seen_gone(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| matches!(seen.observation, Observation::Gone(_)))
    }
}

#[cfg(test)]
#[path = "polled_job_tests.rs"]
mod tests;
