//! The state machine of a deployment: its events, and when the launcher must check it next.
//!
//! Each function is one event: it changes the deployment or refuses, and reads no clock. The caller writes
//! the result on condition that [`Deployment::version`] has not changed; after a lost race it loads the
//! deployment and calls the function again. So events may come twice, late or out of order.
//!
//! Two rules always hold. A terminal status never changes. A deployment that is not at its end has a
//! [`Deployment::due_at`]; [`crate::deadline`] decides what its owner, the launcher, does then.

mod cancelling;
mod plan_review;

use crate::attempt::{
    ApplyNote, Attempt, Claim, Ended, Limits, OVERTAKEN, Outcome, Salvage, SecretHash, Stop,
    StopReason,
};
use crate::claimant::Claimant;
use crate::deployment::{Deployment, Status, StoredResults};
use crate::failure::{Failure, FailureClass, Phase, retry_after};
use jiff::Timestamp;
use plan_review::{ask_for_approval, forget_plan};
use std::time::Duration;

pub use cancelling::{CancelAnswer, cancel, overtake};
pub use plan_review::{decide, give_up, go_on, of_stale_plan, plan_again};

/// Without a report for this long, the launcher checks whether the runner's job is alive. Runners report
/// every 15 s, so three reports may be lost.
pub const LEASE: Duration = Duration::from_mins(1);
/// How long a runner's token is valid after its last recorded heartbeat. Every use reads the deployment, so
/// the token also expires with its attempt.
pub const TOKEN_LIFETIME: Duration = Duration::from_mins(10);
/// If the outcome of a start was not recorded, the launcher repeats the same start after this time.
pub const START_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// How long after its first claim a runner gets the same answer again. A runner repeats a claim for two
/// minutes, and its last request may take another one. A later claim is no retry, but comes from a stolen
/// code.
pub const CLAIM_RETRY_WINDOW: Duration = Duration::from_mins(3);

/// Why an event was refused. A runner that receives this must exit at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The attempt is over, or a newer one has begun.
    #[error("the attempt is over or was superseded; stop at once, what you do now is not recorded")]
    Superseded,
    /// Another runner has claimed the attempt.
    #[error("another runner has claimed this attempt; exit without touching anything")]
    ClaimedByAnother,
    /// The claim code is not this attempt's.
    #[error("the claim code is wrong")]
    WrongCode,
}

/// The open attempt, if its number is `number`.
fn open(deployment: &mut Deployment, number: u32) -> Result<&mut Attempt, Refused> {
    match deployment.attempts.last_mut() {
        Some(attempt) if attempt.number == number && attempt.ended.is_none() => Ok(attempt),
        _ => Err(Refused::Superseded),
    }
}

/// Adds the next attempt. `fence` was allocated with the turn.
///
/// # Errors
///
/// [`Refused::Superseded`] if an attempt is open, or the deployment is at its end or being
/// cancelled.
pub fn launch(
    deployment: &mut Deployment,
    fence: u64,
    claim_hash: SecretHash,
    limits: Limits,
    now: Timestamp,
) -> Result<(), Refused> {
    let may = matches!(deployment.status, Status::Queued | Status::Launching);
    if !may || deployment.open_attempt().is_some() || deployment.cancel.is_some() {
        return Err(Refused::Superseded);
    }
    deployment.attempts.push(Attempt {
        number: u32::try_from(deployment.attempts.len()).unwrap_or(u32::MAX) + 1,
        fence,
        launched_at: now,
        limits,
        runner_version: None,
        claim_hash,
        handle: None,
        claim: None,
        phase: Phase::Launch,
        fetched: None,
        apply: ApplyNote::None,
        unwritten: None,
        suspected: false,
        queued: false,
        throttled: false,
        taken_up_at: None,
        ran_at: None,
        waiting: None,
        stop: None,
        ended: None,
        salvage: Salvage::Done,
        salvaged_at: None,
        job_gone_at: None,
        slots: Vec::new(),
        lock: None,
    });
    deployment.status = Status::Launching;
    deployment.message.clear();
    // The reports of an earlier attempt do not describe this one.
    (deployment.counts, deployment.state, deployment.refused_deletions) = (None, None, None);
    deployment.kept = StoredResults::default();
    forget_plan(deployment);
    (deployment.due_at, deployment.hold) = (Some(now + START_RETRY_INTERVAL), None);
    Ok(())
}

/// The platform has accepted the job; `handle` is its name there.
///
/// # Errors
///
/// [`Refused::Superseded`] if the attempt is over.
pub fn started(deployment: &mut Deployment, number: u32, handle: String) -> Result<(), Refused> {
    open(deployment, number)?.handle = Some(handle);
    Ok(())
}

/// A runner claims the attempt. `streams_from` has the lengths of the log and the events of earlier attempts.
/// Returns whether the deployment must be written.
///
/// The same runner may claim again: its answer was lost, or the network has duplicated its request, even
/// after the run has begun. That changes and revokes nothing, so the runner gets the same token. `token_hash`
/// must therefore be derived from the attempt and the claimant.
///
/// # Errors
///
/// [`Refused`] for a wrong code, an attempt that is over or superseded, or one that another runner has
/// claimed. The runner then exits without having read anything.
pub fn claim<'a>(
    deployment: &mut Deployment,
    number: u32,
    code: &SecretHash,
    claimant: impl Into<Claimant<'a>>,
    token_hash: SecretHash,
    streams_from: (u64, u64),
    now: Timestamp,
) -> Result<bool, Refused> {
    let claimant = claimant.into();
    // The code first: a caller with a guessed code learns nothing, not even whether the attempt exists.
    let given = deployment.attempts.iter().find(|attempt| attempt.number == number);
    if given.is_none_or(|attempt| attempt.claim_hash != *code) {
        return Err(Refused::WrongCode);
    }
    if deployment.status == Status::Cancelling {
        return Err(Refused::Superseded);
    }
    let attempt = open(deployment, number)?;
    if let Some(winner) = &attempt.claim {
        let is_same = winner.claimant == claimant.drawn && winner.token_hash == token_hash;
        return if !is_same {
            Err(Refused::ClaimedByAnother)
        } else if now.duration_since(winner.at).unsigned_abs() > CLAIM_RETRY_WINDOW {
            Err(Refused::Superseded)
        } else {
            Ok(false)
        };
    }
    attempt.claim = Some(Claim {
        claimant: claimant.drawn.to_owned(),
        at: now,
        token_hash,
        heartbeat_at: now,
        host: claimant.host.map(str::to_owned),
        user: claimant.user.map(str::to_owned),
        streams_from,
    });
    attempt.phase = attempt.phase.max(Phase::Fetch);
    let due_at = (now + LEASE).min(attempt.limits.run_until(now));
    deployment.status = Status::Running;
    // The check that the launch has scheduled is early enough. Each change of `due_at` costs two index
    // writes, and many runs end before the check.
    if deployment.due_at.is_none_or(|due| due <= now) {
        deployment.due_at = Some(due_at);
    }
    Ok(true)
}

/// The platform has reported that the job of attempt `number`, which is over, is gone. Returns whether that
/// is new.
pub fn job_gone(deployment: &mut Deployment, number: u32, now: Timestamp) -> bool {
    let ended = |attempt: &&mut Attempt| attempt.number == number && attempt.ended.is_some();
    let Some(attempt) = deployment.attempts.iter_mut().find(ended) else { return false };
    if attempt.job_gone_at.is_some() {
        return false;
    }
    attempt.job_gone_at = Some(now);
    true
}

/// The runner is alive and has reached `phase`. Returns whether the deployment must be written. A heartbeat
/// is written at most every quarter of a [`LEASE`]; the begin of an apply is always written, because it
/// decides whether the attempt may be repeated.
///
/// # Errors
///
/// [`Refused::Superseded`] if the attempt is over.
pub fn report(
    deployment: &mut Deployment,
    number: u32,
    phase: Phase,
    now: Timestamp,
) -> Result<bool, Refused> {
    let attempt = open(deployment, number)?;
    let stopping = attempt.stop.is_some();
    let Some(claim) = attempt.claim.as_mut() else { return Err(Refused::Superseded) };
    let silent = now.duration_since(claim.heartbeat_at).unsigned_abs();
    let begins_apply = phase == Phase::Apply && attempt.phase < Phase::Apply;
    // The answer to this report tells the runner to stop, so the apply does not begin.
    let phase = if begins_apply && stopping { attempt.phase } else { phase };
    if silent < LEASE / 4 && !begins_apply {
        return Ok(false);
    }
    claim.heartbeat_at = now;
    // A heartbeat extends the lease, never the deadline of the run.
    let due_at = (now + LEASE).min(attempt.limits.run_until(claim.at));
    attempt.phase = attempt.phase.max(phase);
    // Each change of `due_at` costs two index writes. A check that comes earlier than it must finds this heartbeat, and waits.
    let is_check_near = deployment.due_at.is_none_or(|due| due < now + LEASE / 2);
    if !stopping && silent >= LEASE / 4 && is_check_near {
        deployment.due_at = Some(due_at);
    }
    Ok(true)
}

/// Records what the runner reports of its apply. Returns whether the deployment must be written.
///
/// # Errors
///
/// [`Refused::Superseded`] if the attempt is over.
pub fn note_apply(
    deployment: &mut Deployment,
    number: u32,
    note: ApplyNote,
) -> Result<bool, Refused> {
    let attempt = open(deployment, number)?;
    Ok(std::mem::replace(&mut attempt.apply, note) != note)
}

/// The runner's result says in which phase the run ended: the last sign of life written may name an earlier one.
///
/// # Errors
///
/// [`Refused::Superseded`] if the attempt is over.
pub fn record_phase(deployment: &mut Deployment, number: u32, phase: Phase) -> Result<(), Refused> {
    let attempt = open(deployment, number)?;
    attempt.phase = attempt.phase.max(phase);
    Ok(())
}

/// The attempt is over: the runner has reported it, or the launcher has proved it. Ends the deployment, or
/// schedules another attempt after a pause.
///
/// # Errors
///
/// [`Refused::Superseded`] if the attempt was over before, or succeeded without a claim.
pub fn end(
    deployment: &mut Deployment,
    number: u32,
    outcome: Outcome,
    now: Timestamp,
) -> Result<(), Refused> {
    let repeatable = deployment.is_repeatable();
    let attempt = open(deployment, number)?;
    if attempt.claim.is_none() && outcome == Outcome::Succeeded {
        // No runner can have done the work of an attempt without a claim.
        return Err(Refused::Superseded);
    }
    let outcome = effective_outcome(attempt, outcome);
    attempt.ended = Some(Ended { at: now, outcome: outcome.clone() });
    // What may be repeated after it began counts as not begun.
    let reached = if repeatable { attempt.phase.min(Phase::Plan) } else { attempt.phase };
    let only_planned = attempt.phase < Phase::Apply;
    if outcome == Outcome::Succeeded && only_planned && ask_for_approval(deployment, now) {
        return Ok(());
    }
    let pause = match &outcome {
        Outcome::Failed(failure) if deployment.cancel.is_none() => {
            retry_after(failure.class, reached, number)
        }
        Outcome::Failed(_) | Outcome::Succeeded | Outcome::Cancelled => None,
    };
    match pause {
        Some(pause) => {
            deployment.status = Status::Launching;
            deployment.message = match &outcome {
                Outcome::Failed(failure) => format!(
                    "attempt {number} ended ({}): {}; retrying in {} s",
                    failure.class,
                    failure.message,
                    pause.as_secs()
                ),
                Outcome::Succeeded | Outcome::Cancelled => String::new(),
            };
            deployment.due_at = Some(now + pause);
        }
        None => finish(deployment, outcome, now),
    }
    Ok(())
}

/// The platform hints that a job is gone, which is no proof. Returns whether the launcher must check that.
pub fn suspect(deployment: &mut Deployment, number: u32, now: Timestamp) -> bool {
    let awaited = |attempt: &&mut Attempt| attempt.number == number && attempt.needs_its_job();
    let Some(attempt) = deployment.attempts.iter_mut().find(awaited) else { return false };
    let is_new = !std::mem::replace(&mut attempt.suspected, true);
    if is_new && attempt.ended.is_none() {
        deployment.due_at = Some(now);
    }
    is_new
}

/// When the launcher must check a claimed attempt whose last heartbeat was at `last_report`.
pub(crate) fn watch(attempt: &Attempt, claim: &Claim, last_report: Timestamp) -> Timestamp {
    (last_report + LEASE).min(attempt.limits.run_until(claim.at))
}

/// The outcome of this attempt. A runner knows that it was asked to stop, but not the reason: a user
/// cancelled, a deadline passed, or the platform reclaims its node.
pub fn effective_outcome(attempt: &Attempt, outcome: Outcome) -> Outcome {
    match (outcome, &attempt.stop) {
        (Outcome::Cancelled, Some(stop)) => outcome_of_stop(attempt, stop),
        (Outcome::Cancelled, None) => Outcome::Failed(Failure::new(
            FailureClass::Evicted,
            "the platform, not Canyon, asked the job to stop",
        )),
        (other, _) => other,
    }
}

/// The outcome of an attempt that was stopped.
pub(crate) fn outcome_of_stop(attempt: &Attempt, stop: &Stop) -> Outcome {
    match stop.reason {
        StopReason::Cancel | StopReason::Overtaken => Outcome::Cancelled,
        StopReason::QueueDeadline
        | StopReason::StartDeadline
        | StopReason::RunDeadline
        | StopReason::TotalDeadline
        | StopReason::Silence => Outcome::Failed(stop.as_failure(attempt)),
    }
}

/// Ends the deployment.
fn finish(deployment: &mut Deployment, outcome: Outcome, now: Timestamp) {
    (deployment.status, deployment.message) = match outcome {
        Outcome::Succeeded => (Status::Succeeded, String::new()),
        Outcome::Cancelled => {
            let on_request = deployment.cancel.is_some();
            let why = if on_request { "cancelled on request" } else { OVERTAKEN };
            (Status::Cancelled, why.to_owned())
        }
        Outcome::Failed(failure) => (Status::Failed, failure.message),
    };
    deployment.completed_at = Some(now);
    (deployment.due_at, deployment.hold) = (None, None);
}

/// Ends a deployment without an open attempt: it waited too long, or cannot be launched.
pub fn end_without_attempt(deployment: &mut Deployment, outcome: Outcome, now: Timestamp) {
    if !deployment.status.is_terminal() && deployment.open_attempt().is_none() {
        finish(deployment, outcome, now);
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
