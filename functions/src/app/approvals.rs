//! Approvals: reviews of plans by people, and the rules that ask for them.

use super::App;
use super::permissions::of_caller;
use crate::app::error::AppError;
use canyon_api::error::{AUTHOR, NOT_AN_APPROVER};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inventory::EnvironmentStatus;
use canyon_domain::module_source::Digest;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::review::{self, GivenReview, ReviewRefusal};
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;

/// What a person does about a plan that waits for its approval.
#[derive(Clone, Debug)]
pub(crate) enum ReviewRequest {
    /// Approves the plan with this digest.
    Approve(Digest, Option<String>),
    /// Rejects the plan.
    Reject(Option<String>),
    /// Ends the deployment without a review.
    Discard,
}

impl ReviewRequest {
    fn action(&self) -> &'static str {
        match self {
            Self::Approve(..) => "deployment.approve",
            Self::Reject(_) => "deployment.reject",
            Self::Discard => "deployment.discard",
        }
    }

    fn comment(&self) -> Option<&str> {
        match self {
            Self::Approve(_, comment) | Self::Reject(comment) => comment.as_deref(),
            Self::Discard => None,
        }
    }
}

impl From<ReviewRefusal> for AppError {
    fn from(refusal: ReviewRefusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            ReviewRefusal::Author => Self::denied(message).with_detail("code", AUTHOR),
            ReviewRefusal::NotAnApprover(_) => {
                Self::denied(message).with_detail("code", NOT_AN_APPROVER)
            }
            ReviewRefusal::CommentMissing | ReviewRefusal::FaultyComment => {
                Self::invalid("comment", message)
            }
            ReviewRefusal::OtherPlan(current) => {
                Self::conflict(message).with_detail("plan_digest", current.to_string())
            }
            ReviewRefusal::NotAwaited(..)
            | ReviewRefusal::Expired
            | ReviewRefusal::Repeated(..) => Self::conflict(message),
        }
    }
}

impl App {
    /// Reviews the plan of a deployment, or discards it.
    ///
    /// # Errors
    ///
    /// 403 when the caller may not; 404 when the deployment does not exist; 409 when it waits for no approval, or its plan is
    /// another.
    pub(crate) async fn review(
        &self,
        by: &Principal,
        id: DeploymentId,
        request: &ReviewRequest,
    ) -> Result<Deployment, AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(by.org, id).await?;
            let needed = match request {
                ReviewRequest::Discard => Role::Deployer,
                ReviewRequest::Approve(..) | ReviewRequest::Reject(_) => Role::Viewer,
            };
            let mut deployment = of_caller(by, needed, id, found)?;
            let now = self.now();
            let rights = self.review_rights(by, std::slice::from_ref(&deployment)).await?;
            let reviewer = rights.reviewer(&deployment);
            let given = GivenReview { reviewer, comment: request.comment(), at: now };
            match request {
                ReviewRequest::Approve(digest, _) => {
                    review::approve(&mut deployment, digest, &given).map(drop)
                }
                ReviewRequest::Reject(_) => review::reject(&mut deployment, &given),
                ReviewRequest::Discard => review::discard(&mut deployment, now),
            }?;
            deployment.version += 1;
            let mut record = self.record(by, request.action(), deployment.path());
            let plan = deployment.plan.as_ref().map(|plan| format!("plan {}", plan.digest));
            record.details = plan.into_iter().chain(request.comment().map(str::to_owned)).collect();
            if self.save_reviewed(by.org, &deployment, &record).await? == Saved::Yes {
                return Ok(deployment);
            }
        }
        Err(AppError::contended(id))
    }

    /// Writes a deployment after a review of its plan, or the answer of a check: it waits on, has ended, or its plan is to be applied.
    pub(super) async fn save_reviewed(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        record: &AuditRecord,
    ) -> Result<Saved, AppError> {
        if deployment.status.is_terminal() {
            let saved = self.table.end_deployment(org, deployment, record.at, Some(record)).await?;
            if saved == Saved::Yes {
                self.changes.ended(org, deployment);
            }
            return Ok(saved);
        }
        if deployment.awaits_approval() || !deployment.releases_turn() {
            return Ok(self.table.save_deployment_with(org, deployment, record).await?);
        }
        let found = self.table.environment(org, &deployment.project, &deployment.env).await?;
        let found = found.filter(|found| found.uuid == deployment.env_uuid);
        let mut environment = found.ok_or_else(|| {
            AppError::conflict("the environment of this deployment was deleted: discard its plan")
        })?;
        if environment.status == EnvironmentStatus::Deleting {
            return Err(AppError::conflict(
                "the environment is being deleted: discard the plan, or approve it if the deletion fails",
            ));
        }
        environment
            .queue
            .rejoin(deployment.id)
            .map_err(|full| AppError::conflict(full.to_string()))?;
        environment.version += 1;
        let step = DeploymentChange {
            deployment,
            environment: EnvironmentChange::Save(&environment),
            next: None,
            wake: Wake::Launcher,
            record: Some(record),
        };
        Ok(self.table.change_deployment(org, &step).await?)
    }
}
