//! Audit records: which principal did what, when, and to which resource.

use crate::deployment::Deployment;
use crate::ids::PrincipalId;
use crate::plan_check::{PlanCheckAnswer, PlanCheckId};
use crate::retention::RemovedCounts;
use crate::run_kind::RunKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One accepted change. It is written in the transaction of the change itself, so that there is
/// neither a change without a record nor a record without a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// UUID version 7, so records sort by time.
    pub id: Uuid,
    /// When.
    pub at: Timestamp,
    /// The principal.
    pub by: PrincipalId,
    /// The action, `<kind>.<verb>`, such as `runner.create`.
    pub action: String,
    /// The resource: its kind and path, such as `projects/shop/envs/dev`.
    pub subject: String,
    /// The right that allowed it: the role of the caller, or `attempt` for a runner, or `check ID` for an
    /// external check, or `canyon`.
    pub by_right: String,
    /// Further facts, such as the resources that were left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl AuditRecord {
    /// The record of a deployment's end without a user's request: its runner reported it (`by_right` is
    /// `attempt`), or Canyon detected it (`canyon`).
    pub fn of_end(id: Uuid, at: Timestamp, by_right: &str, deployment: &Deployment) -> Self {
        Self {
            id,
            at,
            by: PrincipalId(Uuid::nil()),
            action: format!("deployment.{}", deployment.status),
            subject: deployment.path(),
            by_right: by_right.to_owned(),
            details: RunKind::details_of(deployment),
        }
    }

    /// The record of the final answer of an external check about a deployment's plan. No principal has given it: `by_right` names
    /// the check.
    pub fn of_check(
        id: Uuid,
        at: Timestamp,
        deployment: &Deployment,
        check: &PlanCheckId,
        answer: &PlanCheckAnswer,
    ) -> Self {
        let plan = deployment.plan.as_ref().map(|plan| format!("plan {}", plan.digest));
        let status = format!("{check}: {}", answer.status.as_str());
        Self {
            id,
            at,
            by: PrincipalId(Uuid::nil()),
            action: "deployment.check".to_owned(),
            subject: deployment.path(),
            by_right: format!("check {check}"),
            details: [Some(status), plan, answer.message.clone()].into_iter().flatten().collect(),
        }
    }

    /// The record of what Canyon has removed in one round because the organization keeps it no longer.
    pub fn of_retention(id: Uuid, at: Timestamp, removed: &RemovedCounts) -> Self {
        Self {
            id,
            at,
            by: PrincipalId(Uuid::nil()),
            action: "retention.remove".to_owned(),
            subject: "retention".to_owned(),
            by_right: "canyon".to_owned(),
            details: removed.details(),
        }
    }

    /// The record that Canyon requests a deployment which undoes the drift that `check` has found.
    pub fn of_reconciliation(id: Uuid, at: Timestamp, check: &Deployment) -> Self {
        Self {
            id,
            at,
            by: PrincipalId(Uuid::nil()),
            action: "drift.reconcile".to_owned(),
            subject: format!("projects/{}/envs/{}", check.project, check.env),
            by_right: "canyon".to_owned(),
            details: vec![format!("found by the check {}", check.id)],
        }
    }

    /// The record that Canyon has read, after the deployment's end, that its job could not write the state: until an
    /// administrator accepts a state, deployments of its environment are refused.
    pub fn of_salvage(id: Uuid, at: Timestamp, deployment: &Deployment) -> Self {
        let action = "deployment.state_unwritten".to_owned();
        Self { action, ..Self::of_end(id, at, "canyon", deployment) }
    }
}
