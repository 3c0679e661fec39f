//! What the launcher does with a due deployment, and how it records the platform's answer.
//!
//! Every non-terminal state has a deadline here: for its turn, the start, each heartbeat, the run, and a
//! stop. The last one ends even a stop that cannot be proved.

use crate::approval::Approval;
pub use crate::attempt::MAX_SILENCE;
use crate::attempt::{Attempt, Claim, Outcome, Salvage, Stop, StopReason};
use crate::deployment::Deployment;
use crate::failure::{Failure, FailureClass, Phase, shortened};
use crate::hold::Hold;
use crate::lifecycle::{self, LEASE, START_RETRY_INTERVAL, end, outcome_of_stop};
use crate::runner::Timeouts;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Interval of checks of a job that is being stopped.
pub const STOP_CHECK: Duration = Duration::from_secs(2);
/// How long after the grace period of a stop Canyon tries to prove that the job is dead. Then it ends the
/// deployment without the proof and says so.
pub const STOP_PROOF_TIMEOUT: Duration = Duration::from_mins(2);
/// Upper bound of the pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// Check interval of a deployment that waits for its turn. Its predecessor normally wakes it; this is the
/// backstop.
pub const QUEUE_CHECK: Duration = Duration::from_mins(5);

/// Check interval of a deployment that has the turn and may not be launched now: no notification comes when
/// the obstacle is gone.
pub const DEFERRED_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The launcher's next step for a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is at its end.
    Nothing,
    /// Nothing before this time.
    Wait(Timestamp),
    /// Take the turn, write the next attempt, and start it.
    Launch,
    /// Start the open attempt. Idempotent: a start that already happened is found, not repeated.
    Start,
    /// Check whether the open attempt's job is alive, and pass the answer to [`observed`].
    Observe,
    /// Ask the job to stop and save its state, then observe it.
    Stop,
    /// Kill the job, then observe it.
    Kill,
    /// End the deployment without an attempt.
    End(Outcome),
    /// End it as cancelled, for this reason.
    GiveUp(String),
    /// Ask the services that are to check its plan.
    RequestChecks,
    /// Count the checks of its plan as failed whose answers are missing after their time.
    ExpireChecks,
}

/// What the platform reports about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum Observation {
    /// No agent has taken it yet, for this reason, and nothing is lost meanwhile. The start timeout has not
    /// begun; the limit of the wait is the runner's `timeouts.queue_seconds`.
    Queued(String),
    /// It is alive.
    Alive,
    /// It does not run yet, for this reason; the platform still intends to start it.
    Waiting(String),
    /// It is proved dead, or was never started; with the platform's reason if there is one.
    Gone(Option<Failure>),
    /// The platform gave no answer, for this reason.
    Unknown(String),
}

/// The next step for the deployment. `timeouts` are the runner's current ones: they limit a deployment that
/// waits; a launched job keeps [`Attempt::limits`].
///
/// `up_since` is when Canyon began to receive reports: silence before that was Canyon's own outage.
pub fn next_step(
    deployment: &Deployment,
    timeouts: &Timeouts,
    up_since: Timestamp,
    now: Timestamp,
) -> Step {
    if deployment.status.is_terminal() {
        return Step::Nothing;
    }
    let Some(attempt) = deployment.open_attempt() else {
        return without_attempt(deployment, timeouts, now);
    };
    if let Some(stop) = &attempt.stop {
        let kill_at = stop.asked_at + attempt.limits.stop();
        return if now < kill_at { Step::Stop } else { Step::Kill };
    }
    let last_report = |claim: &Claim| claim.heartbeat_at.max(up_since);
    match &attempt.claim {
        None if now >= start_deadline(attempt, timeouts.queue.unsigned_abs()) => Step::Kill,
        _ if attempt.suspected => Step::Observe,
        None if attempt.handle.is_none() => Step::Start,
        None => Step::Observe,
        Some(claim) if now >= attempt.limits.run_until(claim.at) => Step::Stop,
        Some(claim) if now >= last_report(claim) + MAX_SILENCE => Step::Stop,
        Some(claim) if now >= last_report(claim) + LEASE => Step::Observe,
        Some(claim) => Step::Wait(lifecycle::watch(attempt, claim, last_report(claim))),
    }
}

/// Deadline for a claim of the attempt.
fn start_deadline(attempt: &Attempt, queue_limit: Duration) -> Timestamp {
    attempt.limits.at_most(if attempt.awaits_start() {
        attempt.launched_at + queue_limit
    } else {
        attempt.taken_up_at.unwrap_or(attempt.launched_at) + attempt.limits.start()
    })
}

fn without_attempt(deployment: &Deployment, timeouts: &Timeouts, now: Timestamp) -> Step {
    if let Some(approval) = deployment.approval.as_ref().filter(|approval| approval.is_awaited()) {
        return without_approval(approval, now);
    }
    let begin = deployment.counts_from();
    if let Some(total) = timeouts.total
        && now >= begin + total
    {
        let took =
            format!("took longer than the runner's `timeouts.total_seconds` ({})", total.as_secs());
        return Step::End(out_of_time(deployment, took));
    }
    let queue_limit = timeouts.queue;
    let ended = deployment.attempts.last().and_then(|attempt| attempt.ended.as_ref());
    // The pause before the next attempt does not count as waiting.
    let until = match ended {
        None => begin + queue_limit,
        Some(ended) => ended.at.max(begin) + MAX_PAUSE + queue_limit,
    };
    if now >= until {
        let waited = format!(
            "waited longer than the runner's `timeouts.queue_seconds` ({}) for its turn",
            queue_limit.as_secs()
        );
        return Step::End(out_of_time(deployment, waited));
    }
    match deployment.due_at {
        Some(due) if due > now => Step::Wait(due),
        Some(_) | None => Step::Launch,
    }
}

/// The next step for a plan that waits for people and for checks.
fn without_approval(approval: &Approval, now: Timestamp) -> Step {
    if approval.checks.iter().any(|check| check.is_overdue(now)) {
        return Step::ExpireChecks;
    }
    if approval.expires_at().is_none_or(|until| until <= now) {
        return Step::GiveUp("its plan was not approved in time".to_owned());
    }
    if approval.checks.iter().any(|check| check.is_to_be_requested(now)) {
        return Step::RequestChecks;
    }
    Step::Wait(approval.due_at().unwrap_or(now))
}

/// The outcome of a deployment that waited too long, with what it waited for.
fn out_of_time(deployment: &Deployment, mut message: String) -> Outcome {
    if !deployment.message.is_empty() {
        message = format!("{message}: {}", deployment.message);
    }
    Outcome::Failed(Failure::new(FailureClass::Timeout, message))
}

/// The launcher has begun to stop the job of the open attempt: records the reason once, and when to check
/// again.
pub fn stopping(deployment: &mut Deployment, now: Timestamp) {
    let Some(attempt) = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none())
    else {
        return;
    };
    if attempt.stop.is_none() {
        let reason = match &attempt.claim {
            _ if attempt.limits.is_spent(now) => StopReason::TotalDeadline,
            None if attempt.awaits_start() => StopReason::QueueDeadline,
            None => StopReason::StartDeadline,
            Some(claim) if now >= attempt.limits.run_until(claim.at) => StopReason::RunDeadline,
            Some(_) => StopReason::Silence,
        };
        attempt.stop = Some(Stop { reason, asked_at: now });
    }
    deployment.due_at = Some(now + STOP_CHECK);
}

/// Records the platform's answer about the open attempt's job.
pub fn observed(deployment: &mut Deployment, observation: Observation, now: Timestamp) {
    let Some(attempt) = deployment.open_attempt().cloned() else { return };
    let queued = matches!(observation, Observation::Queued(_));
    let is_gone = matches!(observation, Observation::Gone(_));
    let (outcome, waiting) = match observation {
        Observation::Gone(reason) => (Some(outcome_of_death(&attempt, reason)), None),
        Observation::Alive => (outcome_without_proof(&attempt, now), None),
        Observation::Queued(reason) | Observation::Waiting(reason) => {
            (outcome_without_proof(&attempt, now), Some(reason))
        }
        Observation::Unknown(reason) => (
            outcome_without_proof(&attempt, now),
            Some(format!("the platform gave no answer: {reason}")),
        ),
    };
    if let Some(outcome) = outcome {
        let may_leave_orphans = deployment.may_leave_orphans();
        if let Some(attempt) = deployment.attempts.last_mut() {
            // A destroy run creates nothing that could be in no state.
            if !is_gone && attempt.phase >= Phase::Apply && may_leave_orphans {
                attempt.salvage = Salvage::Pending;
            }
            attempt.suspected = false;
        }
        // The attempt is open: `end` cannot refuse.
        let _ = end(deployment, attempt.number, outcome, now);
        return;
    }
    if let Some(attempt) = deployment.attempts.last_mut() {
        if attempt.queued && !queued {
            attempt.taken_up_at = Some(now);
        }
        attempt.queued = queued;
        attempt.suspected = false;
        attempt.waiting = waiting.filter(|_| attempt.claim.is_none()).map(shortened);
        deployment.due_at = Some(next_check(attempt, now));
    }
}

/// The platform has not been asked to start the job yet, for this reason; the launcher retries the same
/// start.
pub fn postponed(deployment: &mut Deployment, reason: String, until: Timestamp) {
    let Some(attempt) = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none())
    else {
        return;
    };
    attempt.waiting = Some(shortened(reason));
    deployment.due_at = Some(until);
}

/// The platform takes only so many starts a second. The launcher asks it at `until`; the start timeout has not begun.
pub fn throttled(deployment: &mut Deployment, reason: String, until: Timestamp) {
    if let Some(attempt) = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none())
    {
        attempt.throttled = true;
    }
    postponed(deployment, reason, until);
}

/// The platform was asked to start the job. If the start had been throttled, its timeout begins now. Returns whether the
/// deployment must be written.
pub fn start_sent(deployment: &mut Deployment, now: Timestamp) -> bool {
    let open = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
    let Some(attempt) = open.filter(|attempt| attempt.throttled) else { return false };
    (attempt.throttled, attempt.taken_up_at) = (false, Some(now));
    true
}

/// No attempt is launched yet, for this temporary reason; the launcher retries.
pub fn deferred(deployment: &mut Deployment, hold: Hold, reason: String, until: Timestamp) {
    deployment.message = shortened(reason);
    deployment.hold = Some(hold);
    deployment.due_at = Some(until);
}

fn next_check(attempt: &Attempt, now: Timestamp) -> Timestamp {
    match (&attempt.stop, &attempt.claim) {
        (Some(_), _) => now + STOP_CHECK,
        (None, None) if attempt.awaits_start() => {
            attempt.limits.at_most(now + START_RETRY_INTERVAL).max(now)
        }
        (None, None) => (now + START_RETRY_INTERVAL).min(start_deadline(attempt, Duration::ZERO)),
        (None, Some(claim)) => (now + LEASE / 4).min(attempt.limits.run_until(claim.at)).max(now),
    }
}

/// The outcome of an attempt whose job died without a result.
fn outcome_of_death(attempt: &Attempt, reason: Option<Failure>) -> Outcome {
    if let Some(stop) = &attempt.stop {
        return outcome_of_stop(attempt, stop);
    }
    Outcome::Failed(reason.unwrap_or_else(|| {
        let message = match attempt.phase {
            Phase::Launch => "the job ended before its runner had reported".to_owned(),
            phase => format!("the job vanished during {phase:?} without a result").to_lowercase(),
        };
        Failure::new(FailureClass::Lost, message)
    }))
}

/// The outcome after [`STOP_PROOF_TIMEOUT`]: a stop that could not be proved ends the attempt too, so no deployment
/// hangs.
fn outcome_without_proof(attempt: &Attempt, now: Timestamp) -> Option<Outcome> {
    let stop = attempt.stop.as_ref()?;
    ended_without_proof(attempt, now).then(|| outcome_of_stop(attempt, stop))
}

/// Whether an attempt that ended at `end` ended because its stop could not be proved: its job may have lived on.
pub(crate) fn ended_without_proof(attempt: &Attempt, end: Timestamp) -> bool {
    let stop = attempt.stop.as_ref();
    stop.is_some_and(|stop| end >= stop.asked_at + attempt.limits.stop() + STOP_PROOF_TIMEOUT)
}
