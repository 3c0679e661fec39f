//! What becomes of a deployment by the external checks of its plan: each function is one event.

use crate::deployment::{Deployment, Status};
use crate::lifecycle;
use crate::plan_check::{
    MAX_LINK, MAX_MESSAGE, PlanCheck, PlanCheckAnswer, PlanCheckId, PlanCheckStatus, is_link,
};
use crate::review::is_readable;
use jiff::Timestamp;

/// Why an answer is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefusal {
    /// The answer is about another plan than the current one.
    #[error("the answer is about an earlier plan: the deployment has been planned again since")]
    OtherPlan,
    /// The approval of the deployment has no such check.
    #[error("the deployment has no check `{0}`")]
    UnknownCheck(PlanCheckId),
    /// The check has another final answer.
    #[error("the check has {} already, and that is final", .0.as_str())]
    Final(PlanCheckStatus),
    /// The time for an answer has passed.
    #[error("the time for the answer has passed")]
    Late,
    /// The deployment does not wait.
    #[error("the deployment waits for no check: it is {}{}", .0.as_str(), if *.1 { ", and its plan is approved" } else { "" })]
    NotAwaited(Status, bool),
    /// The message is too long, or has characters that are not seen.
    #[error(
        "has 1 to {MAX_MESSAGE} characters, no control characters but line ends, and none that are not seen"
    )]
    FaultyMessage,
    /// The link is not one.
    #[error("is an `https://` address of at most {MAX_LINK} characters")]
    FaultyLink,
}

/// The service of the check `id` answers about the plan that `attempt` has made. Returns whether that changes the deployment: a
/// repeated answer does not.
///
/// # Errors
///
/// [`AnswerRefusal`].
pub fn answer(
    deployment: &mut Deployment,
    attempt: u32,
    id: &PlanCheckId,
    given: &PlanCheckAnswer,
    now: Timestamp,
) -> Result<bool, AnswerRefusal> {
    if given.message.as_deref().is_some_and(|text| !is_readable(text, MAX_MESSAGE)) {
        return Err(AnswerRefusal::FaultyMessage);
    }
    if given.link.as_deref().is_some_and(|link| !is_link(link)) {
        return Err(AnswerRefusal::FaultyLink);
    }
    if deployment.plan.as_ref().map(|plan| plan.attempt) != Some(attempt) {
        return Err(AnswerRefusal::OtherPlan);
    }
    let (status, awaits) = (deployment.status, deployment.awaits_approval());
    let unknown = || AnswerRefusal::UnknownCheck(id.clone());
    let approval = deployment.approval.as_deref_mut().ok_or_else(unknown)?;
    let is_granted = approval.granted_at.is_some();
    let check =
        approval.checks.iter_mut().find(|check| check.rule.id == *id).ok_or_else(unknown)?;
    if check.has(given) {
        return Ok(false);
    }
    if !check.status.is_open() {
        return Err(AnswerRefusal::Final(check.status));
    }
    if !awaits {
        return Err(AnswerRefusal::NotAwaited(status, is_granted));
    }
    if check.is_overdue(now) {
        return Err(AnswerRefusal::Late);
    }
    check.answer(given);
    lifecycle::decide(deployment, now);
    Ok(true)
}

/// The checks whose answers are missing after their time have failed.
pub fn expire(deployment: &mut Deployment, now: Timestamp) {
    for check in awaited(deployment) {
        if check.is_overdue(now) {
            check.expire();
        }
    }
    lifecycle::decide(deployment, now);
}

/// Records which services have accepted the requests about the plan that `attempt` has made, and why others have not. Returns whether
/// the deployment must be written.
pub fn record_requests(
    deployment: &mut Deployment,
    attempt: u32,
    sent: &[(PlanCheckId, Result<(), String>)],
    now: Timestamp,
) -> bool {
    let is_same_plan = deployment.plan.as_ref().is_some_and(|plan| plan.attempt == attempt);
    let since = deployment.approval.as_ref().and_then(|approval| approval.asked_at);
    let Some(since) = since.filter(|_| is_same_plan) else { return false };
    let mut is_changed = false;
    for check in awaited(deployment) {
        let Some((_, result)) = sent.iter().find(|(id, _)| *id == check.rule.id) else { continue };
        is_changed |= match result {
            Ok(()) => check.accept_request(now),
            Err(reason) => check.refuse_request(reason, since, now),
        };
    }
    if is_changed {
        lifecycle::decide(deployment, now);
    }
    is_changed
}

/// The checks that `deployment` waits for; none if it does not wait.
fn awaited(deployment: &mut Deployment) -> impl Iterator<Item = &mut PlanCheck> {
    let awaits = deployment.awaits_approval();
    let approval = deployment.approval.as_deref_mut().filter(|_| awaits);
    approval.into_iter().flat_map(|approval| approval.checks.iter_mut())
}

#[cfg(test)]
#[path = "plan_check_answer_tests.rs"]
mod tests;
