//! The endpoint by which the service of an external check answers about a plan.

use super::body::Body;
use super::caller::{Ids, presented};
use super::error::ApiError;
use super::refusals::OfRun;
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::request::Parts;
use canyon_api::plan_check::{PlanCheck, PlanCheckAnswerBody};
use canyon_domain::attempt::SecretHash;
use canyon_domain::ids::DeploymentId;
use canyon_domain::plan_check::PlanCheckId;
use canyon_identity::bearer::{AttemptRef, Presented};

/// The largest answer, in bytes: its texts, each character escaped.
const MAX_ANSWER: usize = 16 * 1024;

pub(super) fn routes() -> Routes<App> {
    routes![answer].layer(DefaultBodyLimit::max(MAX_ANSWER))
}

/// A service with the token of a check. The token is verified with the check's name.
struct CheckCaller {
    of: AttemptRef,
    token: SecretHash,
}

impl FromRequestParts<App> for CheckCaller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        match presented(parts)? {
            Presented::Check(of, token) => Ok(Self { of, token }),
            Presented::Api(_)
            | Presented::Claim(..)
            | Presented::Job(..)
            | Presented::Read(..)
            | Presented::Watch(..) => Err(ApiError::unauthorized()),
        }
    }
}

/// Answer a request of Canyon to check a plan, with the token of that request. `passed` and `failed` are final; the same answer again
/// changes nothing.
#[utoipa::path(put, path = "/orgs/{orgId}/deployments/{deploymentId}/checks/{planCheckId}", tag = "Deployment",
    operation_id = "answerPlanCheck",
    request_body = PlanCheckAnswerBody,
    responses((status = 200, description = "The check as it is now.", body = PlanCheck), OfRun))]
async fn answer(
    State(app): State<App>,
    caller: CheckCaller,
    Ids((org, id, check)): Ids<(String, DeploymentId, PlanCheckId)>,
    body: Body<PlanCheckAnswerBody>,
) -> Result<Json<PlanCheck>, ApiError> {
    app.prove_check(caller.of, &caller.token, &check).await?;
    app.check_is_of_path(caller.of, &org, id).await?;
    Ok(Json(app.answer_check(caller.of, &check, &body.value.into()).await?.into()))
}
