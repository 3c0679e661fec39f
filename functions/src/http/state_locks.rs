//! The endpoint by which a runner asks whether it may break a lock on its state.

use super::body::Body;
use super::caller::Ids;
use super::error::ApiError;
use super::refusals::OfRun;
use super::routing::{Routes, routes};
use super::runs::Run;
use crate::App;
use axum::Json;
use axum::extract::State;
use canyon_api::attempt::{JudgeLockAnswer, JudgeLockBody};
use canyon_domain::ids::DeploymentId;
use canyon_domain::state_lock::StateLock;

pub(super) fn routes() -> Routes<App> {
    routes![judge_lock]
}

/// Judge a lock that blocks the run: whether its owner is proved dead.
#[utoipa::path(post,
    path = "/orgs/{orgId}/deployments/{deploymentId}/attempts/{number}/actions/judge-lock",
    tag = "Run", operation_id = "judgeStateLock",
    request_body = JudgeLockBody,
    responses(
        (status = 200, description = "Judged.", body = JudgeLockAnswer),
        OfRun,
    ))]
async fn judge_lock(
    State(app): State<App>,
    run: Run,
    Ids((_, id, number)): Ids<(String, DeploymentId, u32)>,
    body: Body<JudgeLockBody>,
) -> Result<Json<JudgeLockAnswer>, ApiError> {
    run.is_for(id, Some(number))?;
    let JudgeLockBody { id, who, created, operation, host_process } = body.value;
    for (field, value, most) in
        [("id", &id, 255), ("who", &who, 511), ("operation", &operation, 255)]
    {
        let least = usize::from(field == "id");
        let length = value.chars().count();
        if !(least..=most).contains(&length) || value.chars().any(char::is_control) {
            let reason = format!("{least} to {most} characters, and no control characters");
            return Err(ApiError::field(field, reason));
        }
    }
    let lock = StateLock { id, who, created, operation, host_process };
    Ok(Json(app.judge_lock(run.token, &lock).await?))
}
