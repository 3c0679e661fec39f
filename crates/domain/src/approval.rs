//! Approval of plans: the rule of an environment, and how far the approval of one deployment has come.
//!
//! An environment type has a rule, and an environment may have a stricter one. Of each setting the stricter value counts.

pub use crate::approval_rule::{
    ApprovalNeed, ApprovalRule, Approvers, EXPIRY, MAX_COUNT, MAX_GROUPS, MAX_SUBJECTS, MAX_TEXT,
    Reviewer, TurnHold,
};

use crate::ids::PrincipalId;
use crate::plan_check::{PlanCheck, PlanCheckStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The approval of one deployment: the rule at its acceptance, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Which plans need it.
    pub required: ApprovalNeed,
    /// How many people must approve.
    pub count: u8,
    /// All of these must admit a reviewer: the type's, and the environment's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Approvers>,
    /// Whether the requester may not approve.
    pub forbid_author: bool,
    /// For how long the plan waits.
    pub expires_seconds: u32,
    /// Whether an approval must say something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub comment_required: bool,
    /// What becomes of the turn.
    #[serde(default, skip_serializing_if = "TurnHold::is_turn")]
    pub hold: TurnHold,
    /// Since when its plan waits for reviews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// The reviews of that plan, at most one of each person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<Review>,
    /// The external checks of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<PlanCheck>,
    /// When the last approval that it needed was given, and the last check has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<Timestamp>,
}

/// A review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Who reviewed.
    pub by: PrincipalId,
    /// When.
    pub at: Timestamp,
    /// Whether it is an approval, and not a rejection.
    pub approves: bool,
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Approval {
    /// The approval that a deployment needs by the rules of its environment's type and of the environment, in this order; `None`
    /// if none is needed.
    pub fn by_rules(rules: &[&ApprovalRule]) -> Option<Self> {
        let required = rules.iter().map(|rule| rule.required).max()?;
        if required == ApprovalNeed::Never {
            return None;
        }
        let approvers = rules.iter().map(|rule| rule.approvers.clone());
        let checks = joined_checks(rules);
        // Without a person and without a check, the wait would be none.
        let least = u8::from(!checks.iter().any(|check| check.rule.mandatory));
        Some(Self {
            required,
            count: rules.iter().map(|rule| rule.count).max()?.max(least),
            approvers: approvers.filter(|approvers| !approvers.is_default()).collect(),
            forbid_author: rules.iter().any(|rule| rule.forbid_author),
            expires_seconds: rules.iter().map(|rule| rule.expires_seconds).min()?,
            comment_required: rules.iter().any(|rule| rule.comment_required),
            hold: rules.iter().rev().find_map(|rule| rule.hold).unwrap_or_default(),
            asked_at: None,
            reviews: Vec::new(),
            checks,
            granted_at: None,
        })
    }

    /// Whether its plan waits for reviews.
    pub fn is_awaited(&self) -> bool {
        self.asked_at.is_some() && self.granted_at.is_none()
    }

    /// Until when its plan waits.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.asked_at.map(|since| {
            since
                .saturating_add(std::time::Duration::from_secs(self.expires_seconds.into()))
                .unwrap_or(since)
        })
    }

    /// When the launcher must do something about the plan that waits.
    pub fn due_at(&self) -> Option<Timestamp> {
        let of_checks = self.checks.iter().filter_map(PlanCheck::due_at);
        self.expires_at().into_iter().chain(of_checks).min()
    }

    /// Whether all people have approved, and all mandatory checks have passed.
    pub fn is_complete(&self) -> bool {
        let has_passed =
            |check: &PlanCheck| !check.rule.mandatory || check.status == PlanCheckStatus::Passed;
        self.given() >= self.count.into() && self.checks.iter().all(has_passed)
    }

    /// How many people have approved.
    pub fn given(&self) -> usize {
        self.reviews.iter().filter(|review| review.approves).count()
    }

    /// Whether `reviewer` may approve, apart from who the author is.
    pub fn admits(&self, reviewer: &Reviewer<'_>) -> bool {
        if self.approvers.is_empty() {
            return Approvers::default().admit(reviewer);
        }
        self.approvers.iter().all(|approvers| approvers.admit(reviewer))
    }

    /// Begins to wait for reviews of a new plan: those of an earlier plan are void.
    pub fn ask(&mut self, now: Timestamp) {
        self.asked_at = Some(now);
        self.checks.iter_mut().for_each(|check| check.begin(now));
        self.reviews.clear();
        self.granted_at = None;
    }

    /// Waits for no reviews any more: another plan is made first.
    pub fn withdraw(&mut self) {
        self.asked_at = None;
        self.checks.iter_mut().for_each(PlanCheck::reset);
        self.reviews.clear();
        self.granted_at = None;
    }
}

/// The checks of all rules. Of two with one id, that of the earlier rule counts: the type's comes first.
fn joined_checks(rules: &[&ApprovalRule]) -> Vec<PlanCheck> {
    let mut joined: Vec<PlanCheck> = Vec::new();
    for rule in rules.iter().flat_map(|rule| &rule.checks) {
        if joined.iter().all(|check| check.rule.id != rule.id) {
            joined.push(PlanCheck::of(rule.clone()));
        }
    }
    joined
}

#[cfg(test)]
#[path = "approval_tests.rs"]
mod tests;
