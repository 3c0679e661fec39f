//! How a deployment moves from state to state, and when somebody must look at it next.
//!
//! Each function is one event: it changes the deployment or refuses, and reads no clock. Whoever
//! calls writes the result on condition that [`Deployment::version`] has not changed, and on a lost
//! race loads it again and asks again. So events may come twice, late or out of order.
//!
//! Two rules hold everywhere. A terminal status never changes. And a deployment that is not at its
//! end has a [`Deployment::due_at`]: [`crate::deadline`] says what its owner, the launcher, does
//! then.

use crate::attempt::{
    ApplyNote, Attempt, Claim, Ended, Limits, Outcome, SecretHash, Stop, StopReason,
};
use crate::deployment::{CancelRequest, Deployment, Kept, Status};
use crate::failure::{Failure, FailureClass, Phase, retry_after};
use crate::ids::PrincipalId;
use jiff::Timestamp;
use std::time::Duration;

/// Silence of a runner after which the launcher looks whether its job still lives. Runners report
/// every 15 s, so three reports may be lost.
pub const LEASE: Duration = Duration::from_mins(1);
/// How long a runner's token lives after its last sign of life. Every use reads the deployment, so
/// that the token also dies with its attempt.
pub const TOKEN_LIFE: Duration = Duration::from_mins(10);
/// After a launch whose outcome was not recorded, the same start is repeated this much later.
pub const START_AGAIN: Duration = Duration::from_secs(10);

/// How long after its first claim a runner gets the same answer again. A runner repeats a claim for two
/// minutes, and its last request may take another one; later it is no repeat, but a stolen code.
pub const CLAIM_REPEATS: Duration = Duration::from_mins(3);

/// The runner that claims an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant<'a> {
    /// The number that it drew for itself.
    pub drawn: &'a str,
    /// The name of the machine, pod or task that it runs in, as it says; Canyon has not verified it.
    pub host: Option<&'a str>,
    /// The newest format of jobs that it understands ([`crate::job::FORMAT`]).
    pub job_format: u32,
}

impl<'a> From<&'a str> for Claimant<'a> {
    fn from(drawn: &'a str) -> Self {
        Self { drawn, host: None, job_format: crate::job::FORMAT }
    }
}

/// Why an event was refused. The runner that hears it must exit at once.
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

/// The answer to a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// Nothing ran: it is cancelled.
    Cancelled,
    /// Its job is being stopped.
    Stopping,
    /// It had ended before.
    AlreadyOver,
}

/// The open attempt, if it is number `number`.
fn open(deployment: &mut Deployment, number: u32) -> Result<&mut Attempt, Refused> {
    match deployment.attempts.last_mut() {
        Some(attempt) if attempt.number == number && attempt.ended.is_none() => Ok(attempt),
        _ => Err(Refused::Superseded),
    }
}

/// Writes the next attempt. `fence` was drawn with the turn.
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
        apply: ApplyNote::None,
        unwritten: None,
        suspected: false,
        queued: false,
        taken_up_at: None,
        ran_at: None,
        waiting: None,
        stop: None,
        ended: None,
        job_gone_at: None,
        places: Vec::new(),
        lock: None,
    });
    deployment.status = Status::Launching;
    deployment.message.clear();
    // What an earlier attempt reported is not what this one does.
    (deployment.counts, deployment.state, deployment.refused_deletions) = (None, None, None);
    deployment.kept = Kept::default();
    deployment.due_at = Some(now + START_AGAIN);
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

/// A runner claims the attempt. `streams_from` says where the log and the events of earlier attempts
/// end. Returns whether that must be written.
///
/// The same runner may claim again: its answer was lost, or the network has doubled its request, be
/// it long after the run has begun. That changes nothing and revokes nothing, so it gets the token
/// that it has. `token_hash` must therefore follow from the attempt and the claimant.
///
/// # Errors
///
/// Any [`Refused`]; the runner exits then without having read anything.
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
    // The code first: whoever guesses one learns nothing, not even whether there is such an attempt.
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
        } else if now.duration_since(winner.at).unsigned_abs() > CLAIM_REPEATS {
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
        streams_from,
    });
    attempt.phase = attempt.phase.max(Phase::Fetch);
    let due_at = (now + LEASE).min(attempt.limits.run_until(now));
    deployment.status = Status::Running;
    // The look that the launch had set is soon enough. Moving it is paid for twice, in the index,
    // and many runs are over before it comes.
    if deployment.due_at.is_none_or(|due| due <= now) {
        deployment.due_at = Some(due_at);
    }
    Ok(true)
}

/// The platform has said that the job of attempt `number`, which is over, is gone. Returns whether
/// that was not known before.
pub fn job_gone(deployment: &mut Deployment, number: u32, now: Timestamp) -> bool {
    let ended = |attempt: &&mut Attempt| attempt.number == number && attempt.ended.is_some();
    let Some(attempt) = deployment.attempts.iter_mut().find(ended) else { return false };
    if attempt.job_gone_at.is_some() {
        return false;
    }
    attempt.job_gone_at = Some(now);
    true
}

/// The runner lives and has come to `phase`. Returns whether that must be written: a sign of life
/// is written at most every quarter of a [`LEASE`], but the begin of an apply always, because it
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
    // The answer to this tells the runner to stop, so it does not begin.
    let phase = if begins_apply && stopping { attempt.phase } else { phase };
    if silent < LEASE / 4 && !begins_apply {
        return Ok(false);
    }
    claim.heartbeat_at = now;
    // A sign of life moves the lease, never the end of the run.
    let due_at = (now + LEASE).min(attempt.limits.run_until(claim.at));
    attempt.phase = attempt.phase.max(phase);
    if !stopping && silent >= LEASE / 4 {
        deployment.due_at = Some(due_at);
    }
    Ok(true)
}

/// The runner says something of its apply. Returns whether that must be written.
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
pub fn reached(deployment: &mut Deployment, number: u32, phase: Phase) -> Result<(), Refused> {
    let attempt = open(deployment, number)?;
    attempt.phase = attempt.phase.max(phase);
    Ok(())
}

/// The attempt is over: the runner said so, or the launcher has proved it. Ends the deployment, or
/// lets another attempt follow after a pause.
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
    let attempt = open(deployment, number)?;
    if attempt.claim.is_none() && outcome == Outcome::Succeeded {
        // Nobody can have done the work of an attempt that nobody claimed.
        return Err(Refused::Superseded);
    }
    let outcome = judged(attempt, outcome);
    attempt.ended = Some(Ended { at: now, outcome: outcome.clone() });
    let reached = attempt.phase;
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
                    "attempt {number} ended ({}): {}; trying again in {} s",
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

/// The platform hints that the job of attempt `number` is gone. It is no proof: the launcher looks at
/// once. Returns whether that must be written; a hint that comes again, late or for another attempt
/// changes nothing.
pub fn suspect(deployment: &mut Deployment, number: u32, now: Timestamp) -> bool {
    let Ok(attempt) = open(deployment, number) else { return false };
    if attempt.suspected {
        return false;
    }
    attempt.suspected = true;
    deployment.due_at = Some(now);
    true
}

/// When a claimed attempt must be looked at, if its runner was `heard` then for the last time.
pub(crate) fn watch(attempt: &Attempt, claim: &Claim, heard: Timestamp) -> Timestamp {
    (heard + LEASE).min(attempt.limits.run_until(claim.at))
}

/// What an outcome means for this attempt. A runner knows that it was asked to stop, and not why:
/// because somebody cancelled, because a deadline passed, or because the platform wants its node
/// back.
pub fn judged(attempt: &Attempt, outcome: Outcome) -> Outcome {
    match (outcome, &attempt.stop) {
        (Outcome::Cancelled, Some(stop)) => outcome_of_stop(attempt, stop),
        (Outcome::Cancelled, None) => Outcome::Failed(Failure::new(
            FailureClass::Evicted,
            "the job was asked to stop, and not by Canyon",
        )),
        (other, _) => other,
    }
}

/// With what an attempt ends that was stopped.
pub(crate) fn outcome_of_stop(attempt: &Attempt, stop: &Stop) -> Outcome {
    match stop.reason {
        StopReason::Cancel => Outcome::Cancelled,
        StopReason::QueueDeadline
        | StopReason::StartDeadline
        | StopReason::RunDeadline
        | StopReason::TotalDeadline
        | StopReason::Silence => Outcome::Failed(stop.told(attempt)),
    }
}

/// Brings the deployment to its end.
fn finish(deployment: &mut Deployment, outcome: Outcome, now: Timestamp) {
    (deployment.status, deployment.message) = match outcome {
        Outcome::Succeeded => (Status::Succeeded, String::new()),
        Outcome::Cancelled => (Status::Cancelled, "cancelled on request".to_owned()),
        Outcome::Failed(failure) => (Status::Failed, failure.message),
    };
    deployment.completed_at = Some(now);
    deployment.due_at = None;
}

/// Somebody asks to cancel. Nothing runs: it ends now. A job runs: it is stopped, and the
/// deployment ends when that is proved, or in the state that the run reaches first.
pub fn cancel(deployment: &mut Deployment, by: PrincipalId, now: Timestamp) -> CancelAnswer {
    if deployment.status.is_terminal() {
        return CancelAnswer::AlreadyOver;
    }
    if deployment.cancel.is_some() {
        return CancelAnswer::Stopping;
    }
    deployment.cancel = Some(CancelRequest { by, at: now });
    let Some(attempt) = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none())
    else {
        finish(deployment, Outcome::Cancelled, now);
        return CancelAnswer::Cancelled;
    };
    attempt.stop = Some(Stop { reason: StopReason::Cancel, asked_at: now });
    deployment.status = Status::Cancelling;
    deployment.due_at = Some(now);
    CancelAnswer::Stopping
}

/// Ends a deployment that has no open attempt: it waited too long, or cannot be launched at all.
pub fn give_up(deployment: &mut Deployment, outcome: Outcome, now: Timestamp) {
    if !deployment.status.is_terminal() && deployment.open_attempt().is_none() {
        finish(deployment, outcome, now);
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
