//! What the launcher does with a deployment when it is due, and what it makes of the platform's
//! answer.
//!
//! Every state that is not an end has a deadline here: for its turn, for the start, for each sign
//! of life, for the run, and for a stop. The last one ends even a stop that cannot be proved.

use crate::attempt::{Attempt, Claim, Outcome, Stop, StopReason};
use crate::concurrency::LimitScope;
use crate::deployment::Deployment;
use crate::failure::{Failure, FailureClass, Phase, shortened};
use crate::lifecycle::{self, LEASE, START_AGAIN, end, outcome_of_stop};
use crate::runner::Timeouts;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Silence of a living job after which it is stopped.
pub const MAX_SILENCE: Duration = Duration::from_mins(5);
/// Between two looks at a job that is being stopped.
pub const STOP_CHECK: Duration = Duration::from_secs(2);
/// After the grace of a stop, how long Canyon tries to prove the job dead before it ends the
/// deployment anyway and says so.
pub const STOP_PROOF: Duration = Duration::from_mins(2);
/// Longer than any pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// A deployment that waits for its turn is woken by the one before it; this is the backstop.
pub const QUEUE_CHECK: Duration = Duration::from_mins(5);

/// A deployment that may not be launched now, although it has the turn, is looked at again this much
/// later: whoever lets it go tells nobody.
pub const HELD_CHECK: Duration = Duration::from_secs(30);

/// What the launcher does with a deployment that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, ever: it is at its end.
    Nothing,
    /// Nothing before then.
    Wait(Timestamp),
    /// Take the turn, write the next attempt, and start it.
    Launch,
    /// Start the open attempt, again if need be: a start that happened is found, not repeated.
    Start,
    /// Look whether the open attempt's job lives, and tell [`observed`].
    Observe,
    /// Ask the job to stop and let it save its state, then look.
    Stop,
    /// Kill the job, then look.
    Kill,
    /// End it without an attempt.
    End(Outcome),
}

/// What the platform says about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum Observation {
    /// Nobody has taken it up yet, for this reason, and nothing is lost meanwhile. The time to start
    /// has not begun; how long it may wait is the runner's `timeouts.queue_seconds`.
    Queued(String),
    /// It lives.
    Alive,
    /// It does not run yet, for this reason; the platform still means to start it.
    Waiting(String),
    /// It is proved dead, or was never started; with the platform's reason if it gave one.
    Gone(Option<Failure>),
    /// The platform did not say.
    Unknown(String),
}

/// What to do with the deployment now. `timeouts` are the runner's as they are now: they limit what waits; a job that
/// was launched keeps [`Attempt::limits`].
///
/// `up_since` is when Canyon began to hear runners: silence before then was Canyon's own.
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
    let heard = |claim: &Claim| claim.heartbeat_at.max(up_since);
    match &attempt.claim {
        None if now >= start_deadline(attempt, timeouts.queue.unsigned_abs()) => Step::Kill,
        _ if attempt.suspected => Step::Observe,
        None if attempt.handle.is_none() => Step::Start,
        None => Step::Observe,
        Some(claim) if now >= attempt.limits.run_until(claim.at) => Step::Stop,
        Some(claim) if now >= heard(claim) + MAX_SILENCE => Step::Stop,
        Some(claim) if now >= heard(claim) + LEASE => Step::Observe,
        Some(claim) => Step::Wait(lifecycle::watch(attempt, claim, heard(claim))),
    }
}

/// Until when a runner must have claimed the attempt.
fn start_deadline(attempt: &Attempt, queue_limit: Duration) -> Timestamp {
    attempt.limits.at_most(if attempt.queued {
        attempt.launched_at + queue_limit
    } else {
        attempt.taken_up_at.unwrap_or(attempt.launched_at) + attempt.limits.start()
    })
}

fn without_attempt(deployment: &Deployment, timeouts: &Timeouts, now: Timestamp) -> Step {
    if let Some(total) = timeouts.total
        && now >= deployment.created_at + total
    {
        let took =
            format!("took longer than the runner's `timeouts.total_seconds` ({})", total.as_secs());
        return Step::End(out_of_time(deployment, took));
    }
    let queue_limit = timeouts.queue;
    let ended = deployment.attempts.last().and_then(|attempt| attempt.ended.as_ref());
    // A pause before the next attempt is no waiting.
    let until = match ended {
        None => deployment.created_at + queue_limit,
        Some(ended) => ended.at + MAX_PAUSE + queue_limit,
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

/// The end of a deployment that waits, with what it waited for.
fn out_of_time(deployment: &Deployment, mut message: String) -> Outcome {
    if !deployment.message.is_empty() {
        message = format!("{message}: {}", deployment.message);
    }
    Outcome::Failed(Failure::new(FailureClass::Timeout, message))
}

/// The launcher has begun to stop the job of the open attempt: records why, once, and when to look
/// again.
pub fn stopping(deployment: &mut Deployment, now: Timestamp) {
    let Some(attempt) = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none())
    else {
        return;
    };
    if attempt.stop.is_none() {
        let reason = match &attempt.claim {
            _ if attempt.limits.is_spent(now) => StopReason::TotalDeadline,
            None if attempt.queued => StopReason::QueueDeadline,
            None => StopReason::StartDeadline,
            Some(claim) if now >= attempt.limits.run_until(claim.at) => StopReason::RunDeadline,
            Some(_) => StopReason::Silence,
        };
        attempt.stop = Some(Stop { reason, asked_at: now });
    }
    deployment.due_at = Some(now + STOP_CHECK);
}

/// What the platform says about the open attempt's job.
pub fn observed(deployment: &mut Deployment, observation: Observation, now: Timestamp) {
    let Some(attempt) = deployment.open_attempt().cloned() else { return };
    let queued = matches!(observation, Observation::Queued(_));
    let (outcome, waiting) = match observation {
        Observation::Gone(reason) => (Some(outcome_of_death(&attempt, reason)), None),
        Observation::Alive => (beyond_proof(&attempt, now), None),
        Observation::Queued(reason) | Observation::Waiting(reason) => {
            (beyond_proof(&attempt, now), Some(reason))
        }
        Observation::Unknown(reason) => {
            (beyond_proof(&attempt, now), Some(format!("the platform does not say: {reason}")))
        }
    };
    if let Some(outcome) = outcome {
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
        deployment.due_at = Some(look_again(attempt, now));
    }
}

/// The platform was not asked to start the job yet, for this reason; the same start is tried again.
pub fn postponed(deployment: &mut Deployment, reason: String, until: Timestamp) {
    let Some(attempt) = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none())
    else {
        return;
    };
    attempt.waiting = Some(shortened(reason));
    deployment.due_at = Some(until);
}

/// No attempt is launched yet, for this reason, which may pass; it is tried again. `limit` is the one whose places are all
/// held, if that is the reason.
pub fn held_back(
    deployment: &mut Deployment,
    reason: String,
    limit: Option<LimitScope>,
    until: Timestamp,
) {
    deployment.message = shortened(reason);
    deployment.awaited_limit = limit;
    deployment.due_at = Some(until);
}

fn look_again(attempt: &Attempt, now: Timestamp) -> Timestamp {
    match (&attempt.stop, &attempt.claim) {
        (Some(_), _) => now + STOP_CHECK,
        (None, None) if attempt.queued => attempt.limits.at_most(now + START_AGAIN).max(now),
        (None, None) => (now + START_AGAIN).min(start_deadline(attempt, Duration::ZERO)),
        (None, Some(claim)) => (now + LEASE / 4).min(attempt.limits.run_until(claim.at)).max(now),
    }
}

/// The job is dead and its runner has left no result.
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

/// A stop that could not be proved ends all the same, after a last deadline: nothing hangs.
fn beyond_proof(attempt: &Attempt, now: Timestamp) -> Option<Outcome> {
    let stop = attempt.stop.as_ref()?;
    (now >= stop.asked_at + attempt.limits.stop() + STOP_PROOF)
        .then(|| outcome_of_stop(attempt, stop))
}
