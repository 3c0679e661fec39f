//! Checks of runners, and the trust that clouds need for a runner.

use super::body::Params;
use super::caller::{Deployer, Ids, Viewer};
use super::deployments::MAX_WAIT;
use super::error::ApiError;
use super::refusals::{OfAction, OfList, OfRead};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::error::ErrorBody;
use canyon_api::runner_check::{
    CheckQuery, RunnerCheck, RunnerCheckStep, RunnerTrust, TrustDocument,
};
use canyon_domain::ids::{OrgId, RunnerCheckId, RunnerId};
use canyon_domain::runner_check;
use jiff::Timestamp;
use std::time::Duration;

pub(super) fn routes() -> Routes<App> {
    routes![ask, get, trust]
}

/// More than any check has.
const MAX_STEPS: u32 = 100;

/// Check a runner: try each step that a launch needs, without starting a job. One check runs at a time; a request
/// during that check returns it.
#[utoipa::path(post, path = "/orgs/{orgId}/runners/{runnerId}/actions/check", tag = "Runner",
    operation_id = "checkRunner",
    responses(
        (status = 202, description = "A launcher will run the check; follow it by its id.", body = RunnerCheck),
        OfAction,
    ))]
async fn ask(
    State(app): State<App>,
    caller: Deployer,
    Ids((_, id)): Ids<(String, RunnerId)>,
) -> Result<(StatusCode, Json<RunnerCheck>), ApiError> {
    let check = app.ask_for_check(&caller, &id).await?;
    Ok((StatusCode::ACCEPTED, Json(render(&caller.org_id, check, app.now()))))
}

/// Read a check, or wait for its next step. It can be read for a day, or until the runner's next check.
#[utoipa::path(get, path = "/orgs/{orgId}/runners/{runnerId}/checks/{checkId}", tag = "Runner",
    operation_id = "getRunnerCheck",
    params(CheckQuery),
    responses((status = 200, description = "The check.", body = RunnerCheck), OfList))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id, check)): Ids<(String, RunnerId, RunnerCheckId)>,
    Params(query): Params<CheckQuery>,
) -> Result<Json<RunnerCheck>, ApiError> {
    let wait = query.wait_seconds.unwrap_or(0);
    if wait > MAX_WAIT {
        return Err(ApiError::field("wait_seconds", "at most 25"));
    }
    let wait = Duration::from_secs(wait.into());
    let after = query.after_steps.unwrap_or(0);
    if after > MAX_STEPS {
        return Err(ApiError::field("after_steps", "at most 100"));
    }
    let after = usize::try_from(after).unwrap_or(usize::MAX);
    let found = app.check(&caller, &id, check, after, wait).await?;
    Ok(Json(render(&caller.org_id, found, app.now())))
}

/// Read the configuration by which clouds trust a runner.
#[utoipa::path(get, path = "/orgs/{orgId}/runners/{runnerId}/trust", tag = "Runner",
    operation_id = "getRunnerTrust",
    responses(
        (status = 200, description = "The configuration.", body = RunnerTrust),
        (status = 409, description = "The runner has warnings: update it first.", body = ErrorBody),
        OfRead,
    ))]
async fn trust(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, RunnerId)>,
) -> Result<Json<RunnerTrust>, ApiError> {
    let trust = app.runner_trust(&caller, &id).await?;
    let document = |of: canyon_domain::trust::Document| TrustDocument {
        title: of.title,
        place: of.place,
        text: of.text,
    };
    Ok(Json(RunnerTrust {
        org_id: caller.org_id.to_string(),
        runner_id: id.into(),
        issuer: trust.issuer,
        subject: trust.subject,
        audience: trust.audience,
        documents: trust.documents.into_iter().map(document).collect(),
    }))
}

fn render(org: &OrgId, of: runner_check::RunnerCheck, now: Timestamp) -> RunnerCheck {
    let step = |of: runner_check::StepReport| RunnerCheckStep {
        step: of.step.to_string(),
        result: of.result.to_string(),
        message: of.message,
    };
    RunnerCheck {
        org_id: org.to_string(),
        id: of.id.0,
        status: of.status(now).to_string(),
        succeeded: of.succeeded(),
        asked_at: of.asked_at,
        ended_at: of.ended_at,
        runner_id: of.runner.into(),
        steps: of.steps.into_iter().map(step).collect(),
    }
}
