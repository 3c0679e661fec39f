//! Reviews of a plan that waits for its approval: each function is one event of a deployment.

use crate::approval::{Approval, Approvers, MAX_TEXT, Review, Reviewer};
use crate::deployment::{Deployment, Status};
use crate::failure::shortened_to;
use crate::lifecycle;
use crate::module_source::Digest;
use jiff::Timestamp;

/// Maximum length of the text about who may approve, in characters: a rule may name many.
const MAX_WANTED: usize = 600;

/// Why a review is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewRefusal {
    /// The deployment waits for no approval.
    #[error("the deployment waits for no approval: it is {}{}", .0.as_str(), if *.1 { ", and its plan is approved" } else { "" })]
    NotAwaited(Status, bool),
    /// The review is of another plan than the current one.
    #[error(
        "the reviewed plan is not the current one, which is {0}; look at that first: canyon show plan"
    )]
    OtherPlan(Digest),
    /// Too late.
    #[error("the approval has expired; plan again")]
    Expired,
    /// The same person has approved this plan.
    #[error(
        "you have approved this plan already; {0} of {1} approvals are given, and the others must be by others"
    )]
    Repeated(usize, u8),
    /// The requester reviews.
    #[error("who has requested a deployment may not approve it in this environment")]
    Author,
    /// A principal that is not an approver reviews.
    #[error("you are not an approver of this environment: {0}")]
    NotAnApprover(String),
    /// The approval needs a comment.
    #[error("is required: this environment wants a comment with each approval")]
    CommentMissing,
    /// The comment is too long, or has control characters.
    #[error(
        "has 1 to {MAX_TEXT} characters, no control characters but line ends, and none that are not seen"
    )]
    FaultyComment,
}

/// Whether a character is not seen, or changes the order of others: it could make a text say something else than it seems to.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether a text of another says to people what it seems to say, in at most `most` characters.
pub(crate) fn is_readable(text: &str, most: usize) -> bool {
    let is_hidden = |c: char| c.is_control() && c != '\n' || is_invisible(c);
    (1..=most).contains(&text.chars().count())
        && !text.trim().is_empty()
        && !text.chars().any(is_hidden)
}

/// A review as it is given.
#[derive(Clone, Copy, Debug)]
pub struct GivenReview<'a> {
    /// Who reviews.
    pub reviewer: Reviewer<'a>,
    /// What is said.
    pub comment: Option<&'a str>,
    /// When.
    pub at: Timestamp,
}

impl GivenReview<'_> {
    fn record(&self, approval: &mut Approval, approves: bool) {
        let by = self.reviewer.id;
        // The newest review of a person counts.
        approval.reviews.retain(|review| review.by != by);
        let comment = self.comment.map(str::to_owned);
        approval.reviews.push(Review { by, at: self.at, approves, comment });
    }

    fn check_comment(&self) -> Result<(), ReviewRefusal> {
        let is_good = |text: &str| is_readable(text, MAX_TEXT);
        if self.comment.is_none_or(is_good) { Ok(()) } else { Err(ReviewRefusal::FaultyComment) }
    }
}

/// The approval that `deployment` waits for.
fn awaited(deployment: &mut Deployment, now: Timestamp) -> Result<&mut Approval, ReviewRefusal> {
    let status = deployment.status;
    let approval = deployment.approval.as_deref_mut();
    let is_granted = approval.as_ref().is_some_and(|approval| approval.granted_at.is_some());
    let approval = approval.filter(|approval| approval.is_awaited() && !status.is_terminal());
    let approval = approval.ok_or(ReviewRefusal::NotAwaited(status, is_granted))?;
    if approval.expires_at().is_some_and(|until| now >= until) {
        return Err(ReviewRefusal::Expired);
    }
    Ok(approval)
}

fn check_admitted(approval: &Approval, reviewer: &Reviewer<'_>) -> Result<(), ReviewRefusal> {
    if approval.admits(reviewer) {
        return Ok(());
    }
    let wanted: Vec<_> = match &approval.approvers[..] {
        [] => vec![Approvers::default().to_string()],
        rules => rules.iter().map(ToString::to_string).collect(),
    };
    let wanted = shortened_to(&wanted.join(", and "), MAX_WANTED);
    let named = if reviewer.is_machine { ", and a service account must be named" } else { "" };
    Err(ReviewRefusal::NotAnApprover(format!("it wants {wanted}{named}")))
}

/// Whether `reviewer` may still approve the plan that `deployment` waits with; `None` if it waits for no approval.
pub fn may_approve(
    deployment: &Deployment,
    reviewer: &Reviewer<'_>,
    now: Timestamp,
) -> Option<bool> {
    if !deployment.awaits_approval() {
        return None;
    }
    let approval = deployment.approval.as_deref()?;
    let is_in_time = approval.expires_at().is_none_or(|until| now < until);
    let is_author = approval.forbid_author && deployment.created_by == reviewer.id;
    let has_approved =
        approval.reviews.iter().any(|review| review.by == reviewer.id && review.approves);
    Some(is_in_time && !is_author && !has_approved && approval.admits(reviewer))
}

/// Approves the plan with this digest. With the last thing that it needs, the launcher applies the plan. Returns whether this
/// approval was that.
///
/// # Errors
///
/// [`ReviewRefusal`].
pub fn approve(
    deployment: &mut Deployment,
    plan: &Digest,
    given: &GivenReview<'_>,
) -> Result<bool, ReviewRefusal> {
    given.check_comment()?;
    let (author, current) =
        (deployment.created_by, deployment.plan.as_ref().map(|plan| plan.digest.clone()));
    let approval = awaited(deployment, given.at)?;
    if let Some(current) = current.filter(|current| current != plan) {
        return Err(ReviewRefusal::OtherPlan(current));
    }
    if approval.forbid_author && author == given.reviewer.id {
        return Err(ReviewRefusal::Author);
    }
    check_admitted(approval, &given.reviewer)?;
    if approval.comment_required && given.comment.is_none() {
        return Err(ReviewRefusal::CommentMissing);
    }
    let is_repeated = |review: &Review| review.by == given.reviewer.id && review.approves;
    if approval.reviews.iter().any(is_repeated) {
        return Err(ReviewRefusal::Repeated(approval.given(), approval.count));
    }
    given.record(approval, true);
    Ok(lifecycle::decide(deployment, given.at))
}

/// Rejects the plan: the deployment ends.
///
/// # Errors
///
/// [`ReviewRefusal`].
pub fn reject(deployment: &mut Deployment, given: &GivenReview<'_>) -> Result<(), ReviewRefusal> {
    given.check_comment()?;
    let approval = awaited(deployment, given.at)?;
    check_admitted(approval, &given.reviewer)?;
    given.record(approval, false);
    let said = given.comment.map_or_else(String::new, |comment| format!(": {comment}"));
    lifecycle::give_up(deployment, format!("its plan was rejected{said}"), given.at);
    Ok(())
}

/// Ends a deployment whose plan is not to be applied.
///
/// # Errors
///
/// [`ReviewRefusal::NotAwaited`].
pub fn discard(deployment: &mut Deployment, now: Timestamp) -> Result<(), ReviewRefusal> {
    match awaited(deployment, now) {
        Ok(_) | Err(ReviewRefusal::Expired) => {}
        Err(refusal) => return Err(refusal),
    }
    lifecycle::give_up(deployment, "its plan was discarded".to_owned(), now);
    Ok(())
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
