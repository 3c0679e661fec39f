//! Reviews of plans that wait for their approval.

use super::body::Body;
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::{OfAction, OfWrite};
use super::render;
use super::routing::{Routes, routes};
use crate::App;
use crate::app::ReviewRequest;
use axum::Json;
use axum::extract::State;
use canyon_api::approval::{ApproveBody, RejectBody};
use canyon_api::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::module_source::Digest;

pub(super) fn routes() -> Routes<App> {
    routes![approve, reject, discard]
}

/// Approve the plan that a deployment waits with. After the last approval that it needs, exactly this plan is applied.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/approve", tag = "Deployment",
    operation_id = "approveDeployment",
    request_body = ApproveBody,
    responses((status = 200, description = "The review counts.", body = Deployment), OfWrite))]
async fn approve(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    body: Body<ApproveBody>,
) -> Result<Json<Deployment>, ApiError> {
    let ApproveBody { plan_digest, comment } = body.value;
    let digest: Digest = plan_digest
        .parse()
        .map_err(|_| ApiError::field("plan_digest", "has 64 lower case hexadecimal digits"))?;
    let reviewed = app.review(&caller, id, &ReviewRequest::Approve(digest, comment)).await?;
    Ok(Json(render::deployment(&caller.org_id, &reviewed, None)))
}

/// Reject the plan that a deployment waits with: the deployment ends as cancelled.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/reject", tag = "Deployment",
    operation_id = "rejectDeployment",
    request_body = RejectBody,
    responses((status = 200, description = "The deployment has ended.", body = Deployment), OfWrite))]
async fn reject(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    body: Body<RejectBody>,
) -> Result<Json<Deployment>, ApiError> {
    let request = ReviewRequest::Reject(body.value.comment);
    let reviewed = app.review(&caller, id, &request).await?;
    Ok(Json(render::deployment(&caller.org_id, &reviewed, None)))
}

/// End a deployment whose plan is not to be applied.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/discard", tag = "Deployment",
    operation_id = "discardDeployment",
    responses((status = 200, description = "The deployment has ended.", body = Deployment), OfAction))]
async fn discard(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<Json<Deployment>, ApiError> {
    let ended = app.review(&caller, id, &ReviewRequest::Discard).await?;
    Ok(Json(render::deployment(&caller.org_id, &ended, None)))
}
