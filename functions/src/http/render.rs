//! Deployments as they are shown.

use crate::App;
use crate::http::error::ApiError;
use canyon_api::deployment::{AttemptSummary, Deployment, DeploymentMetrics, Waiting};
use canyon_domain::attempt::{Attempt, Outcome};
use canyon_domain::concurrency::{MAX_NAMED_HOLDERS, held_by};
use canyon_domain::deployment::{self, Status};
use canyon_domain::failure::Phase;
use canyon_domain::ids::{DeploymentId, OrgId};
use canyon_domain::principal::{Principal, Role};
use serde_json::json;

/// Of how many holders one answer asks whether its reader may read them.
const LOOKED_AT: usize = 10;

/// A deployment as it stands in a list.
pub(super) fn summary(org: &OrgId, of: &deployment::Deployment) -> Deployment {
    Deployment {
        org_id: org.to_string(),
        project_id: of.project.to_string(),
        env_id: of.env.to_string(),
        id: of.id.0,
        created_at: of.created_at,
        created_by: of.created_by.0,
        completed_at: of.completed_at,
        mode: of.mode.as_str().to_owned(),
        plan_only: of.plan_only,
        rollback_to_deployment_id: of.rollback_to.map(|id| id.0),
        status: of.status.as_str().to_owned(),
        status_message: of.message.clone(),
        metrics: metrics(of),
        refused_deletions: of.refused_deletions,
        runner_id: of.runner.to_string(),
        manifest: None,
        waiting: None,
        attempts: Vec::new(),
    }
}

/// A deployment in full.
pub(super) fn deployment(
    org: &OrgId,
    of: &deployment::Deployment,
    waiting: Option<Waiting>,
) -> Deployment {
    Deployment {
        manifest: Some(json!({ "workloads": {} })),
        waiting,
        attempts: of.attempts.iter().map(attempt).collect(),
        ..summary(org, of)
    }
}

fn metrics(of: &deployment::Deployment) -> DeploymentMetrics {
    DeploymentMetrics {
        num_tf_resources: of.counts.and_then(|counts| counts.total),
        num_tf_resources_added: of.counts.map(|counts| counts.added),
        num_tf_resources_removed: of.counts.map(|counts| counts.removed),
        num_tf_resources_changed: of.counts.map(|counts| counts.changed),
        num_tf_resources_orphaned: (of.kept.orphans > 0).then_some(of.kept.orphans),
        ..DeploymentMetrics::default()
    }
}

fn attempt(of: &Attempt) -> AttemptSummary {
    let (status, failure) = match (&of.ended, &of.stop, &of.claim) {
        (Some(ended), _, _) => match &ended.outcome {
            Outcome::Succeeded => ("succeeded", None),
            Outcome::Failed(failure) => ("failed", Some(failure.clone())),
            Outcome::Cancelled => ("cancelled", None),
        },
        (None, Some(_), _) => ("stopping", None),
        (None, None, Some(_)) => ("running", None),
        (None, None, None) => ("launching", None),
    };
    let phase = match of.phase {
        Phase::Launch => "launch",
        Phase::Fetch => "fetch",
        Phase::Init => "init",
        Phase::Plan => "plan",
        Phase::Apply => "apply",
    };
    AttemptSummary {
        number: of.number,
        status: status.to_owned(),
        phase: phase.to_owned(),
        launched_at: of.launched_at,
        claimed_at: of.claim.as_ref().map(|claim| claim.at),
        ended_at: of.ended.as_ref().map(|ended| ended.at),
        failure,
    }
}

impl App {
    /// A deployment in full, with what it waits for.
    pub(super) async fn shown_deployment(
        &self,
        caller: &Principal,
        id: DeploymentId,
    ) -> Result<Deployment, ApiError> {
        let found = self.readable_deployment(caller, id).await?;
        let waiting = self.waiting(caller, &found).await?;
        Ok(deployment(&caller.org_id, &found, waiting))
    }

    async fn waiting(
        &self,
        caller: &Principal,
        of: &deployment::Deployment,
    ) -> Result<Option<Waiting>, ApiError> {
        match of.status {
            Status::Queued => self.queued(caller, of).await.map(Some),
            Status::Launching => self.launching(caller, of).await.map(Some),
            Status::Running
            | Status::Cancelling
            | Status::Succeeded
            | Status::Failed
            | Status::Cancelled => Ok(None),
        }
    }

    async fn queued(
        &self,
        caller: &Principal,
        of: &deployment::Deployment,
    ) -> Result<Waiting, ApiError> {
        let environment = self.table.environment(caller.org, &of.project, &of.env).await?;
        let turns = environment.map(|environment| environment.turns).unwrap_or_default();
        let blocked_by = turns.blocked_by(of.id);
        let reason = match (blocked_by, of.message.is_empty()) {
            (Some(other), _) => {
                format!("deployment {other} of the same environment comes first")
            }
            (None, true) => "the launcher takes it next".to_owned(),
            (None, false) => self.held_back(caller, of).await?,
        };
        Ok(Waiting {
            reason,
            since: of.created_at,
            blocked_by: blocked_by.map(|id| id.0),
            next_attempt_at: of.due_at,
        })
    }

    async fn launching(
        &self,
        caller: &Principal,
        of: &deployment::Deployment,
    ) -> Result<Waiting, ApiError> {
        if let Some(attempt) = of.open_attempt() {
            let started = || "the job is started; its runner has not reported yet".to_owned();
            return Ok(Waiting {
                reason: attempt.waiting.clone().unwrap_or_else(started),
                since: attempt.launched_at,
                blocked_by: None,
                next_attempt_at: None,
            });
        }
        let ended = of.attempts.last().and_then(|attempt| attempt.ended.as_ref());
        Ok(Waiting {
            reason: self.held_back(caller, of).await?,
            since: ended.map_or(of.created_at, |ended| ended.at),
            blocked_by: None,
            next_attempt_at: of.due_at,
        })
    }

    /// Why no attempt is launched. Holders of places are named to readers who may read them.
    async fn held_back(
        &self,
        caller: &Principal,
        of: &deployment::Deployment,
    ) -> Result<String, ApiError> {
        let Some(limit) = &of.awaited_limit else { return Ok(of.message.clone()) };
        let held = self.table.held_places(caller.org, limit).await?;
        let mut named = Vec::new();
        for place in held.iter().take(LOOKED_AT) {
            let id = place.holder.deployment;
            if named.len() < MAX_NAMED_HOLDERS && self.may_read(caller, id).await? {
                named.push(id);
            }
        }
        let others = held.len() - named.len();
        Ok(format!("{}{}", of.message, held_by(&named, others)))
    }

    async fn may_read(&self, caller: &Principal, id: DeploymentId) -> Result<bool, ApiError> {
        // A viewer of the organization reads all of its deployments.
        if caller.role >= Role::Viewer {
            return Ok(true);
        }
        let found = self.table.deployment(caller.org, id).await?;
        Ok(found.is_some_and(|found| caller.role_in((&found).into()) >= Role::Viewer))
    }
}
