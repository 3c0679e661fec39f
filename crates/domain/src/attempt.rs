//! An attempt: one launch of a deployment, and the runner that claimed it.

use crate::blocking_lock::BlockingLock;
use crate::container::ContainerRun;
use crate::failure::{Failure, FailureClass, Phase};
use crate::fetched_module::FetchedModule;
use crate::runner::Timeouts;
use crate::slot::ConcurrencySlot;
use crate::state_facts::UnwrittenState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A job that is alive without a heartbeat for this long is stopped.
pub const MAX_SILENCE: Duration = Duration::from_mins(5);

/// The SHA-256 of a secret, in hexadecimal. Canyon compares and stores only hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(pub String);

/// One launch of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// The fence, allocated when the attempt was written; see [`crate::deployment_queue::DeploymentQueue::fence`].
    pub fence: u64,
    /// When it was written, before the platform was called.
    pub launched_at: Timestamp,
    /// The runner's limits at that time: a later change does not move the deadlines of a running job.
    pub limits: Limits,
    /// The version of the runner's definition with which it was launched. After a change, the definition may
    /// point to another platform than the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_version: Option<u64>,
    /// Hash of the code with which a runner claims it, once.
    pub claim_hash: SecretHash,
    /// The platform's name of the job, if it cannot be derived from the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The claim of the runner that does the work; every other runner of this attempt exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// The phase that it has reached.
    #[serde(default = "launch", skip_serializing_if = "is_launch")]
    pub phase: Phase,
    /// The module that its runner has fetched; `None` until a report says so. Runners of earlier versions do not.
    #[serde(rename = "ran", default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<FetchedModule>,
    /// What its runner has reported of its apply.
    #[serde(default, skip_serializing_if = "ApplyNote::is_none")]
    pub apply: ApplyNote,
    /// The state that it could not write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<UnwrittenState>,
    /// The platform has hinted that its job is gone: the launcher asks the platform at its next reconcile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspected: bool,
    /// No agent has taken its job yet: the start timeout has not begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Its platform takes only so many starts a second, and other jobs come first: the start timeout has not begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub throttled: bool,
    /// When the start timeout began, if that was after the launch: when an agent took the job that had been queued, or when
    /// the platform was asked for the start that had been throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_at: Option<Timestamp>,
    /// The platform that its job runs on, as the agent that took it reports: the machine or the cluster.
    /// Without an agent: its identity from the definition. `None` if no state is stored there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_at: Option<String>,
    /// Why its job does not run yet, in the platform's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// The stop in progress, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Whether Canyon has read what its job left, if it ended without a result after it had begun to apply.
    #[serde(default, skip_serializing_if = "Salvage::is_done")]
    pub salvage: Salvage,
    /// When Canyon read what its job left, if that was after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salvaged_at: Option<Timestamp>,
    /// When its job was proved gone by the platform. The attempt's end alone proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_gone_at: Option<Timestamp>,
    /// The concurrency slots that it holds while it is open; a closed attempt holds none.
    #[serde(rename = "places", default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<ConcurrencySlot>,
    /// The state lock that last blocked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<BlockingLock>,
}

impl Attempt {
    /// Whether its start timeout has not begun yet.
    pub fn awaits_start(&self) -> bool {
        self.queued || self.throttled
    }

    /// Whether the launcher still needs its job: the attempt is open, or Canyon must read what the job left.
    pub fn needs_its_job(&self) -> bool {
        self.ended.is_none() || self.salvage == Salvage::Pending
    }
}

/// What a runner reports of an apply that it has announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyNote {
    /// Nothing.
    #[default]
    None,
    /// The plan removes resources from the state without destroying them.
    Forgets,
    /// The apply was not begun.
    NotBegun,
}

/// How far Canyon is with reading what a job left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Salvage {
    /// It has read that, or there is nothing to read.
    #[default]
    Done,
    /// It will: the job is not proved gone yet, or its platform did not return the job's events. Until then the
    /// job's remains must stay where they are.
    Pending,
    /// It cannot: the platform has no events of the job.
    Impossible,
}

impl Salvage {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_done(&self) -> bool {
        *self == Self::Done
    }
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

/// Time limits of the parts of an attempt, in seconds, and of the whole deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// From the launch until a runner claims it.
    pub start: u32,
    /// From the claim until the result.
    pub run: u32,
    /// From the request to stop until the kill.
    pub stop: u32,
    /// When `timeouts.total_seconds` of the deployment end, over all its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// How long a check for drift runs at most.
const MAX_CHECK_SECONDS: u32 = 30 * 60;

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

    /// The limits of a container job: no longer than its runner allows, and with its own time to stop.
    #[must_use]
    pub fn of_container(self, run: &ContainerRun) -> Self {
        Self { run: self.run.min(run.run_seconds()), stop: run.stop_seconds(), ..self }
    }

    /// The limits of a check for drift: no person waits for it.
    #[must_use]
    pub fn of_check(self) -> Self {
        Self { run: self.run.min(MAX_CHECK_SECONDS), ..self }
    }

    /// Whether the deployment's total time has passed.
    pub fn is_spent(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Deadline of a run that was claimed at `claimed_at`.
    pub fn run_until(&self, claimed_at: Timestamp) -> Timestamp {
        self.at_most(claimed_at + self.run())
    }

    /// `deadline`, or the end of the deployment's total time if that is earlier.
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

/// A runner's successful claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// A random number that the runner generated, so that only this runner can repeat a claim whose answer
    /// was lost.
    pub claimant: String,
    /// When it was accepted.
    pub at: Timestamp,
    /// Hash of its token.
    pub token_hash: SecretHash,
    /// The last recorded heartbeat.
    pub heartbeat_at: Timestamp,
    /// The name of the runner's host (a pod's name, a container's id), as OpenTofu writes it into its locks.
    /// The runner reports it; not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The name of the runner's user, as OpenTofu writes it into its locks. `None` if the runner does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Lengths of the log and of the events of earlier attempts, in bytes.
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
    /// Why `of` is stopped, as a class and a message for its runner, its log and its outcome.
    pub fn as_failure(&self, of: &Attempt) -> Failure {
        let message = match self.reason {
            StopReason::Cancel => {
                let message = "the deployment was cancelled on request";
                return Failure::new(FailureClass::Cancelled, message);
            }
            StopReason::Overtaken => return Failure::new(FailureClass::Cancelled, OVERTAKEN),
            StopReason::QueueDeadline if of.throttled => {
                "its platform took no start within the runner's `timeouts.queue_seconds`".to_owned()
            }
            StopReason::QueueDeadline => {
                "no agent took the job within the runner's `timeouts.queue_seconds`".to_owned()
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
        // What the job waited for.
        let message = match &of.waiting {
            Some(reason) if of.claim.is_none() => format!("{message}: {reason}"),
            Some(_) | None => message,
        };
        Failure::new(FailureClass::Timeout, message)
    }
}

/// The message of a check for drift that was stopped, or not begun, for a deployment.
pub const OVERTAKEN: &str = "a deployment comes first: the check is left out";

/// Why a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A user cancelled the deployment.
    Cancel,
    /// A deployment needs what a check for drift uses: the environment, or a slot.
    Overtaken,
    /// No agent took the job in time.
    QueueDeadline,
    /// No runner claimed the attempt in time.
    StartDeadline,
    /// The run took longer than allowed.
    RunDeadline,
    /// The deployment took longer than allowed, over all its attempts.
    TotalDeadline,
    /// The job is alive, but its runner has been silent for too long.
    Silence,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "failure")]
pub enum Outcome {
    /// The attempt did its work.
    Succeeded,
    /// The attempt failed.
    Failed(Failure),
    /// The attempt was stopped because a user cancelled the deployment.
    Cancelled,
}
