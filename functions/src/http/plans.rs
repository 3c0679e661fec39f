//! Kept plans: their pieces for runners, their changes for people.

use super::body::{self, Params};
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::{OfList, OfRun, OfRunRead};
use super::routing::{Routes, routes};
use super::runs::Run;
use crate::App;
use axum::Json;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use canyon_api::error::ErrorBody;
use canyon_api::plan::{Plan, PlanQuery};
use canyon_domain::ids::DeploymentId;
use canyon_domain::plan_task::PlanPiece;

/// The largest piece, in bytes: a part of a plan file, with what its encryption adds.
const MAX_PIECE: usize = 4 * 1024 * 1024;

pub(super) fn routes() -> Routes<App> {
    routes![plan]
}

pub(super) fn routes_of_runs() -> Routes<App> {
    routes![get_piece, put_piece].layer(DefaultBodyLimit::max(MAX_PIECE))
}

/// Read a page of the plan that Canyon keeps of a deployment which only plans, or that the deployment applies. What is destroyed
/// comes first; only attributes that change are listed; values of sensitive ones never leave the runner.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/plan", tag = "Deployment",
    operation_id = "getDeploymentPlan",
    params(PlanQuery),
    responses(
        (status = 200, description = "The page.", body = Plan),
        OfList,
        (status = 409, description = "The stored plan was changed after it was made.", body = ErrorBody),
    ))]
async fn plan(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    Params(query): Params<PlanQuery>,
) -> Result<Json<Plan>, ApiError> {
    Ok(Json(app.plan_page(&caller, id, query.page.unwrap_or(0)).await?))
}

/// Store a piece of the plan of an attempt, encrypted with the key in its job.
#[utoipa::path(put, path = "/orgs/{orgId}/deployments/{deploymentId}/attempts/{number}/plan/{piece}",
    tag = "Run", operation_id = "putPlanPiece",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 204, description = "It is stored."), OfRun))]
async fn put_piece(
    State(app): State<App>,
    run: Run,
    Ids((_, id, number, piece)): Ids<(String, DeploymentId, u32, PlanPiece)>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    run.is_for(id, Some(number))?;
    let sealed = Bytes::from_request(request, &app).await.map_err(|rejection| {
        let status = rejection.status();
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return ApiError::new(status, "a piece of a plan has at most 4 MiB");
        }
        body::not_whole(&rejection)
    })?;
    app.keep_plan_piece(run.token, piece, sealed).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Fetch a piece of the plan that an attempt applies, encrypted with the key in its job.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/attempts/{number}/plan/{piece}",
    tag = "Run", operation_id = "getPlanPiece",
    responses(
        (status = 200, description = "The piece.", content_type = "application/octet-stream", body = Vec<u8>),
        OfRunRead,
    ))]
async fn get_piece(
    State(app): State<App>,
    run: Run,
    Ids((_, id, number, piece)): Ids<(String, DeploymentId, u32, PlanPiece)>,
) -> Result<impl IntoResponse, ApiError> {
    run.is_for(id, Some(number))?;
    let piece = app.plan_piece(run.token, piece).await?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], piece))
}
