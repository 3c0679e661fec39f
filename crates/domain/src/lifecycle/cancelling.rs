//! Ends of a deployment that Canyon or a user wants before its work is done.

use super::finish;
use crate::attempt::{OVERTAKEN, Outcome, Stop, StopReason};
use crate::deployment::{CancelRequest, Deployment, Status};
use crate::ids::PrincipalId;
use jiff::Timestamp;

/// The answer to a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// Nothing ran: the deployment is cancelled.
    Cancelled,
    /// Its job is being stopped.
    Stopping,
    /// The deployment had ended before.
    AlreadyOver,
}

/// A user cancels the deployment. If nothing runs, it ends now. If a job runs, the job is stopped; the
/// deployment ends when that is proved, or with the result that the run reaches first.
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

/// Ends `check`, or stops its job, because a deployment needs its environment or its slot. Returns whether that changes it.
pub fn overtake(check: &mut Deployment, now: Timestamp) -> bool {
    if check.status.is_terminal() || check.cancel.is_some() {
        return false;
    }
    let open = check.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
    let Some(attempt) = open else {
        finish(check, Outcome::Cancelled, now);
        OVERTAKEN.clone_into(&mut check.message);
        return true;
    };
    if attempt.stop.is_some() {
        return false;
    }
    attempt.stop = Some(Stop { reason: StopReason::Overtaken, asked_at: now });
    check.status = Status::Cancelling;
    check.due_at = Some(now);
    true
}
