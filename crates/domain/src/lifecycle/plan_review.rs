//! The wait of a deployment between the attempt that plans and the one that applies what people have approved.

use super::{Refused, finish, open};
use crate::attempt::{Ended, Outcome};
use crate::deployment::{Deployment, Status};
use crate::failure::Failure;
use crate::plan_check::PlanCheck;
use jiff::Timestamp;

/// Maximum number of attempts of a deployment whose plans are reviewed: each change of the state costs two.
const MAX_ATTEMPTS_OF_REVIEWED: u32 = 12;
/// The message of a deployment whose approved plan is stale.
const AGAIN: &str = "the state has changed since its plan was approved: it is planned again, and needs approval again";
/// The message of a deployment whose plan was stale too often.
const LAST: &str = "STALE_PLAN: the state has changed again since the plan was approved, and this was the last of five new plans: \
     nothing was changed. Find out what changes the state, and deploy again";

/// The next attempt makes another plan, unless it applies what was approved.
pub(super) fn forget_plan(deployment: &mut Deployment) {
    if deployment.plan_only || deployment.plans_for_review() {
        deployment.plan = None;
    }
}

/// An attempt has planned. If people must review its plan, the deployment waits for that, and nothing runs meanwhile. Returns
/// whether they must.
pub(super) fn ask_for_approval(deployment: &mut Deployment, now: Timestamp) -> bool {
    let has_changes = deployment.plan.as_ref().is_some_and(|plan| plan.parts > 0);
    if !has_changes || !deployment.plans_for_review() {
        return false;
    }
    if deployment.cancel.is_some() {
        finish(deployment, Outcome::Cancelled, now);
    } else if let Some(approval) = &mut deployment.approval {
        approval.ask(now);
        deployment.due_at = approval.due_at();
        deployment.status = Status::Running;
        deployment.message.clear();
    }
    true
}

/// Decides about a plan that waits, after a review or an answer of a check has arrived: with the last thing that it needs, the launcher
/// applies it; a mandatory check that has failed ends the deployment. Returns whether the plan is applied.
pub fn decide(deployment: &mut Deployment, now: Timestamp) -> bool {
    let is_awaited = deployment.awaits_approval();
    let Some(approval) = deployment.approval.as_deref_mut().filter(|_| is_awaited) else {
        return false;
    };
    if let Some(reason) = approval.checks.iter().find_map(PlanCheck::refusal) {
        give_up(deployment, reason, now);
        return false;
    }
    if !approval.is_complete() {
        deployment.due_at = approval.due_at();
        return false;
    }
    approval.granted_at = Some(now);
    go_on(deployment, now);
    true
}

/// The plan is approved: the launcher applies it.
pub fn go_on(deployment: &mut Deployment, now: Timestamp) {
    if deployment.status == Status::Running {
        deployment.status = Status::Launching;
    }
    deployment.due_at = Some(now);
}

/// Ends a deployment that has no open attempt as cancelled, for `reason`.
pub fn give_up(deployment: &mut Deployment, reason: String, now: Timestamp) {
    if !deployment.status.is_terminal() && deployment.open_attempt().is_none() {
        finish(deployment, Outcome::Cancelled, now);
        deployment.message = reason;
    }
}

/// The state has changed since the plan was approved, so the attempt has applied nothing: another plan is made, and needs
/// approval again. Returns `false` if the deployment does not plan itself, or has done so too often: then its attempt has failed.
///
/// # Errors
///
/// [`Refused::Superseded`] if the attempt is over.
pub fn plan_again(
    deployment: &mut Deployment,
    number: u32,
    failure: &Failure,
    now: Timestamp,
) -> Result<bool, Refused> {
    let may = deployment.plan_of.is_none()
        && deployment.cancel.is_none()
        && number < MAX_ATTEMPTS_OF_REVIEWED;
    let attempt = open(deployment, number)?;
    let has_stopped = attempt.stop.is_some();
    let Some(approval) = deployment.approval.as_mut().filter(|_| may && !has_stopped) else {
        return Ok(false);
    };
    approval.withdraw();
    deployment.plan = None;
    deployment.status = Status::Launching;
    AGAIN.clone_into(&mut deployment.message);
    deployment.due_at = Some(now);
    let attempt = open(deployment, number)?;
    attempt.ended = Some(Ended { at: now, outcome: Outcome::Failed(failure.clone()) });
    Ok(true)
}

/// The outcome of an attempt whose plan was stale. If no further plan is made because too many were, it says so. It depends on the
/// attempt alone, so a repeated result has the same outcome.
pub fn of_stale_plan(deployment: &Deployment, number: u32, outcome: Outcome) -> Outcome {
    let is_reviewed = deployment.plan_of.is_none() && deployment.approval.is_some();
    match outcome {
        Outcome::Failed(failure) if is_reviewed && number >= MAX_ATTEMPTS_OF_REVIEWED => {
            Outcome::Failed(Failure { message: LAST.to_owned(), ..failure })
        }
        outcome => outcome,
    }
}
