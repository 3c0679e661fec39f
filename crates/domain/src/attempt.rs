//! An attempt: one launch of a deployment, and the runner that claimed it.

use crate::concurrency::Place;
use crate::deadline::MAX_SILENCE;
use crate::failure::{Failure, FailureClass, Phase};
use crate::runner::Timeouts;
use crate::state_lock::MetLock;
use crate::unwritten_state::UnwrittenState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The SHA-256 of a secret, in hexadecimal. What is compared is never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(pub String);

/// One launch of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// Drawn from the environment when the attempt was written; see [`crate::turn::Turns::fence`].
    pub fence: u64,
    /// When it was written, before the platform was called.
    pub launched_at: Timestamp,
    /// The runner's limits as they were then: a later change does not move a running job's
    /// deadlines.
    pub limits: Limits,
    /// Which version of the runner's definition it was launched by: after a change, the runner may look
    /// in another place than where the job is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_version: Option<u64>,
    /// Hash of the code with which the runner claims it, once.
    pub claim_hash: SecretHash,
    /// How the platform names the job, where that does not follow from the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The runner that goes on; every other one started for this attempt exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// How far it came.
    #[serde(default = "launch", skip_serializing_if = "is_launch")]
    pub phase: Phase,
    /// What its runner has said of its apply.
    #[serde(default, skip_serializing_if = "ApplyNote::is_none")]
    pub apply: ApplyNote,
    /// The state that it could not write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<UnwrittenState>,
    /// The platform has hinted that its job is gone: whoever is the next to look asks the platform.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspected: bool,
    /// No agent has taken its job up yet: the time to start has not begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// When its job was taken up, after it had been queued. The time to start began then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_at: Option<Timestamp>,
    /// Where its job runs, in the words of the agent that has taken it: the machine or the cluster; without an agent, what
    /// names that in the definition. `None` where no state lies there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_at: Option<String>,
    /// Why its job does not run yet, in the platform's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// Why and since when it is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Since when its job is proved gone: the platform has said so. Its end alone proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_gone_at: Option<Timestamp>,
    /// The places that it holds while it is open; those of a past one are given back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// The lock on the state that was last in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<MetLock>,
}

/// What a runner says of an apply that it has announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyNote {
    /// Nothing in particular.
    #[default]
    None,
    /// The plan leaves resources behind that no state will list.
    Forgets,
    /// Nothing was begun of it.
    NotBegun,
}

impl ApplyNote {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

fn launch() -> Phase {
    Phase::Launch
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_launch(phase: &Phase) -> bool {
    *phase == Phase::Launch
}

/// How long each part of an attempt may take, in seconds, and when all of it must be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// From the launch until a runner claims it.
    pub start: u32,
    /// From the claim until the result.
    pub run: u32,
    /// From the request to stop until the kill.
    pub stop: u32,
    /// When the deployment has had the time that it may take, over all its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Limits {
    /// The limits of an attempt of a deployment that was accepted at `created_at`.
    pub fn new(timeouts: Timeouts, created_at: Timestamp) -> Self {
        let seconds =
            |duration: jiff::SignedDuration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        Self {
            start: seconds(timeouts.start),
            run: seconds(timeouts.run),
            stop: seconds(timeouts.stop),
            until: timeouts.total.map(|total| created_at + total),
        }
    }

    /// Whether the deployment has had the time that it may take.
    pub fn is_spent(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// When a run must be over that was claimed at `claimed_at`.
    pub fn run_until(&self, claimed_at: Timestamp) -> Timestamp {
        self.at_most(claimed_at + self.run())
    }

    /// `deadline`, or the end of the deployment's time if that comes before.
    pub fn at_most(&self, deadline: Timestamp) -> Timestamp {
        self.until.map_or(deadline, |until| until.min(deadline))
    }

    /// From the launch until a runner claims it.
    pub fn start(&self) -> Duration {
        Duration::from_secs(self.start.into())
    }

    /// From the claim until the result.
    pub fn run(&self) -> Duration {
        Duration::from_secs(self.run.into())
    }

    /// From the request to stop until the kill.
    pub fn stop(&self) -> Duration {
        Duration::from_secs(self.stop.into())
    }
}

/// The runner that won the claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// A number that the runner drew for itself, so that it may repeat a claim whose answer was
    /// lost, and no other runner may.
    pub claimant: String,
    /// When it won.
    pub at: Timestamp,
    /// Hash of its token.
    pub token_hash: SecretHash,
    /// The last sign of life that was written.
    pub heartbeat_at: Timestamp,
    /// The name of the host that it runs on (a pod's name, a container's id), as OpenTofu writes it
    /// into the locks that it makes. The runner says it; Canyon has not verified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Bytes that earlier attempts had written to the log and to the events.
    #[serde(default, skip_serializing_if = "is_start")]
    pub streams_from: (u64, u64),
}

fn is_start(from: &(u64, u64)) -> bool {
    *from == (0, 0)
}

/// A stop in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// When the job was first asked to stop.
    pub asked_at: Timestamp,
}

impl Stop {
    /// Why `of` is stopped, for its runner, its log and its end: class and words.
    pub fn told(&self, of: &Attempt) -> Failure {
        let message = match self.reason {
            StopReason::Cancel => {
                let message = "the deployment was cancelled on request";
                return Failure::new(FailureClass::Cancelled, message);
            }
            StopReason::QueueDeadline => {
                "no agent took the job up within the runner's `timeouts.queue_seconds`".to_owned()
            }
            StopReason::StartDeadline => format!(
                "no runner reported within `timeouts.start_seconds` ({})",
                of.limits.start().as_secs()
            ),
            StopReason::RunDeadline => format!(
                "the run took longer than `timeouts.run_seconds` ({}) and was stopped",
                of.limits.run().as_secs()
            ),
            StopReason::TotalDeadline => {
                "the deployment took longer than `timeouts.total_seconds` and was stopped"
                    .to_owned()
            }
            StopReason::Silence => {
                format!("the runner was silent for {} s and was stopped", MAX_SILENCE.as_secs())
            }
        };
        // What it waited for all that time.
        let message = match &of.waiting {
            Some(reason) if of.claim.is_none() => format!("{message}: {reason}"),
            Some(_) | None => message,
        };
        Failure::new(FailureClass::Timeout, message)
    }
}

/// Why a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A user cancelled the deployment.
    Cancel,
    /// No agent took the job up in time.
    QueueDeadline,
    /// No runner claimed the attempt in time.
    StartDeadline,
    /// The run took longer than allowed.
    RunDeadline,
    /// The deployment took longer than allowed, over all its attempts.
    TotalDeadline,
    /// The job lives, but its runner has been silent for too long.
    Silence,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "failure")]
pub enum Outcome {
    /// It did what it was to do.
    Succeeded,
    /// It did not.
    Failed(Failure),
    /// It was stopped because a user asked.
    Cancelled,
}
