//! The events that Canyon publishes about deployments, and about the drift of environments.
//!
//! Each event is complete, so that a consumer needs no further request. Delivery is at least once, in no
//! guaranteed order: [`DeploymentEvent::id`] is the same each time, and `at` orders the events of one
//! deployment. A consumer ignores members that it does not know; [`SCHEMA_VERSION`] increases when a member
//! changes its meaning or is removed.

use crate::attempt::Outcome;
use crate::deployment::{Deployment, Mode, ResourceCounts, Status};
use crate::drift::DriftNews;
use crate::failure::Failure;
use crate::ids::{DeploymentId, EnvId, OrgId, PrincipalId, ProjectId, RunnerId};
use crate::kind::Kind;
use crate::resource_name::ResourceName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The source of the events on the bus.
pub const SOURCE: &str = "canyon";
/// The schema version of [`DeploymentEvent`] and [`Rejected`].
pub const SCHEMA_VERSION: u32 = 1;
/// The detail type of [`Rejected`] on the bus.
pub const REJECTED: &str = "deployment.rejected";

/// An event of a deployment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeploymentEvent {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `<deployment>.<what>`: the same for each delivery.
    pub id: String,
    /// When it happened.
    pub at: Timestamp,
    /// The organization.
    pub org_id: OrgId,
    /// The project.
    pub project_id: ProjectId,
    /// The environment.
    pub env_id: EnvId,
    /// The deployment.
    pub deployment_id: DeploymentId,
    /// The runner that serves the environment.
    pub runner_id: RunnerId,
    /// What its job runs.
    #[serde(default)]
    pub kind: Kind,
    /// The resource that a container job is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceName>,
    /// What the deployment does.
    pub mode: Mode,
    /// Whether it stops after the plan.
    pub plan_only: bool,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    pub status: Status,
    /// When the deployment was accepted.
    pub created_at: Timestamp,
    /// The principal that requested it.
    pub created_by: PrincipalId,
    /// The attempt that runs, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why it failed: class and message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// A message about the status, if it adds something to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What the run did to resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceCounts>,
    /// Of a plan that waits for approval: what people review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalOfEvent>,
    /// Of an event about drift: what is new, and how much differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftOfEvent>,
}

/// What an event says of a plan that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalOfEvent {
    /// The plan, as `canyon approve --plan-digest` names it.
    pub plan_digest: String,
    /// How many people must approve it.
    pub needed: u8,
    /// Until when it waits.
    pub expires_at: Timestamp,
}

/// What an event says of the drift of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftOfEvent {
    /// Whether other resources differ than before, or none any more.
    pub news: DriftNews,
    /// How many resources the state has.
    pub num_resources: u32,
    /// How many of them differ.
    pub num_drifted: u32,
}

impl DeploymentEvent {
    /// Its detail type on the bus.
    pub fn detail_type(&self) -> String {
        if self.approval.is_some() {
            return "deployment.awaiting-approval".to_owned();
        }
        match self.drift.map(|drift| drift.news) {
            Some(DriftNews::Detected) => "environment.drift-detected".to_owned(),
            Some(DriftNews::Resolved) => "environment.drift-resolved".to_owned(),
            None => format!("deployment.{}", self.status),
        }
    }

    fn new(org: &OrgId, of: &Deployment, status: Status, what: &str, at: Timestamp) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            id: format!("{}.{what}", of.id),
            at,
            org_id: org.clone(),
            project_id: of.project.clone(),
            env_id: of.env.clone(),
            deployment_id: of.id,
            runner_id: of.runner.clone(),
            kind: of.kind(),
            resource: of.resource().cloned(),
            mode: of.mode,
            plan_only: of.plan_only,
            status,
            created_at: of.created_at,
            created_by: of.created_by,
            attempt: None,
            failure: None,
            message: String::new(),
            resources: None,
            approval: None,
            drift: None,
        }
    }

    fn queued(org: &OrgId, of: &Deployment) -> Self {
        Self::new(org, of, Status::Queued, "queued", of.created_at)
    }

    fn running(org: &OrgId, of: &Deployment) -> impl Iterator<Item = Self> {
        of.attempts.iter().filter_map(move |attempt| {
            let claim = attempt.claim.as_ref()?;
            let what = format!("running.{}", attempt.number);
            let mut event = Self::new(org, of, Status::Running, &what, claim.at);
            event.attempt = Some(attempt.number);
            Some(event)
        })
    }

    fn end(org: &OrgId, of: &Deployment) -> Option<Self> {
        let at = of.completed_at.filter(|_| of.status.is_terminal())?;
        let last = of.attempts.last();
        let outcome = last.and_then(|attempt| attempt.ended.as_ref()).map(|ended| &ended.outcome);
        let mut event = Self::new(org, of, of.status, of.status.as_str(), at);
        event.attempt = last.map(|attempt| attempt.number);
        event.failure = match outcome {
            Some(Outcome::Failed(failure)) if of.status == Status::Failed => Some(failure.clone()),
            _ => None,
        };
        event.message.clone_from(&of.message);
        event.resources = of.counts;
        Some(event)
    }

    /// Its plan waits for approval. Each plan of the deployment has an event of its own. That of a kept plan of another
    /// deployment waits before the first attempt.
    fn awaiting(org: &OrgId, of: &Deployment) -> Option<Self> {
        let (approval, plan) = (of.approval.as_deref()?, of.plan.as_deref()?);
        let (asked_at, expires_at) = (approval.asked_at?, approval.expires_at()?);
        let what = format!("awaiting-approval.{}", plan.attempt);
        let is_own = of.plan_of.is_none();
        let status = if is_own { Status::Running } else { Status::Queued };
        let mut event = Self::new(org, of, status, &what, asked_at);
        event.attempt = Some(plan.attempt).filter(|_| is_own);
        let (plan_digest, needed) = (plan.digest.to_string(), approval.count);
        event.approval = Some(ApprovalOfEvent { plan_digest, needed, expires_at });
        Some(event)
    }

    /// What its end has changed about the drift of its environment.
    fn drift_news(org: &OrgId, of: &Deployment) -> Option<Self> {
        let found = of.drift.as_deref()?;
        let (news, at) = (found.news?, of.completed_at?);
        let mut event = Self::new(org, of, of.status, "drift", at);
        event.attempt = of.attempts.last().map(|attempt| attempt.number);
        let (num_resources, num_drifted) = (found.num_resources, found.num_drifted);
        event.drift = Some(DriftOfEvent { news, num_resources, num_drifted });
        Some(event)
    }

    /// The events of the write that left the deployment in this state. A check for drift has an event only if what differs has
    /// changed.
    pub fn of_write(org: &OrgId, of: &Deployment) -> Vec<Self> {
        let is_new = of.status == Status::Queued && of.version == 1;
        let accepted = is_new.then(|| Self::queued(org, of));
        let of_run = accepted.into_iter().chain(Self::of_status(org, of));
        let of_run = of_run.filter(|_| of.mode.takes_turn());
        of_run.chain(Self::drift_news(org, of)).collect()
    }

    fn of_status(org: &OrgId, of: &Deployment) -> Option<Self> {
        match of.status {
            Status::Queued | Status::Running if of.awaits_approval() => Self::awaiting(org, of),
            // A hint that the job is gone is a write too, and no claim.
            Status::Running if of.open_attempt().is_some_and(|attempt| attempt.suspected) => None,
            Status::Running => Self::running(org, of).last(),
            Status::Queued | Status::Launching | Status::Cancelling => None,
            Status::Succeeded | Status::Failed | Status::Cancelled => Self::end(org, of),
        }
    }

    /// All events of the deployment, oldest first: for the case that Canyon does not know which it has
    /// published.
    pub fn history(org: &OrgId, of: &Deployment) -> Vec<Self> {
        let of_run = std::iter::once(Self::queued(org, of))
            .chain(Self::running(org, of))
            .chain(Self::awaiting(org, of))
            .chain(Self::end(org, of))
            .filter(|_| of.mode.takes_turn());
        let mut all: Vec<_> = of_run.chain(Self::drift_news(org, of)).collect();
        all.sort_by_key(|event| event.at);
        all
    }
}

/// A request to deploy that arrived as an event and was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `<event_id>.rejected`: the same for each delivery.
    pub id: String,
    /// When it was rejected, first or again.
    pub at: Timestamp,
    /// The id of the rejected event.
    pub event_id: String,
    /// The AWS account that sent it.
    pub account: String,
    /// The source that it named.
    pub source: String,
    /// The organization that it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org_id: Option<String>,
    /// The reason, and what to do.
    pub reason: String,
    /// The invalid fields, if these are the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<RejectedField>,
}

/// An invalid field of a rejected request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedField {
    /// Where it is in the event's `detail`.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
