//! Tokens by which a job authenticates to clouds.

use super::body::Body;
use super::caller::Ids;
use super::error::ApiError;
use super::refusals::OfRun;
use super::routing::{Routes, routes};
use super::runs::Run;
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use canyon_api::error::ErrorBody;
use canyon_api::job_token::{IssueTokenBody, IssuedToken};
use canyon_domain::ids::DeploymentId;

pub(super) fn routes() -> Routes<App> {
    routes![issue_token]
}

/// Get a token of the job, for a cloud that trusts Canyon's issuer. It is valid for 10 minutes at most.
#[utoipa::path(post,
    path = "/orgs/{orgId}/deployments/{deploymentId}/attempts/{number}/actions/issue-token",
    tag = "Run", operation_id = "issueJobToken",
    request_body = IssueTokenBody,
    responses(
        (status = 200, description = "The token.", body = IssuedToken),
        (status = 403, description = "The runner's `job.identity` does not name the audience, or \
                                      the deployment only plans.", body = ErrorBody),
        (status = 503, description = "The signing key does not answer.", body = ErrorBody),
        OfRun,
    ))]
async fn issue_token(
    State(app): State<App>,
    run: Run,
    Ids((_, id, number)): Ids<(String, DeploymentId, u32)>,
    body: Body<IssueTokenBody>,
) -> Result<Response, ApiError> {
    run.is_for(id, Some(number))?;
    let IssueTokenBody { audience, phase } = &body.value;
    let issued = app.issue_token(run.token, audience, *phase).await?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(issued)).into_response())
}
