//! Drift of environments.

use super::body::Params;
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::{OfAction, OfList};
use super::routing::{Routes, routes};
use super::{paging, parameters, render};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::deployment::Deployment;
use canyon_api::drift::{Drift, DriftDetails, DriftQuery};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::drift::DriftStatus;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::inventory::Environment;

pub(super) fn routes() -> Routes<App> {
    routes![list, get, check]
}

/// List environments with their drift. A page may have fewer entries than requested, or none, although another page follows.
#[utoipa::path(get, path = "/orgs/{orgId}/drift", tag = "Environment", operation_id = "listDrift",
    params(DriftQuery, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Drift>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    Params(given): Params<Vec<(String, String)>>,
    Params(query): Params<DriftQuery>,
    Params(page): Params<PageQuery>,
) -> Result<Json<Page<Drift>>, ApiError> {
    let mut faults: FieldErrors = parameters::unknown::<DriftQuery>(&given);
    let status = query.status.as_deref().and_then(|text| {
        parameters::one_of(&mut faults, "status", text, &DriftStatus::ALL, DriftStatus::as_str)
    });
    let project = query.project_id.as_deref();
    let project: Option<ProjectId> =
        project.and_then(|text| super::fields::id(&mut faults, "project_id", text));
    faults.into_result(())?;
    let of = project.as_ref().map_or("*", ProjectId::as_str);
    let name = format!("drift?project={of}&status={}", status.map_or("*", DriftStatus::as_str));
    let request = paging::request_of_visible(&app, caller.org, &page, &name).await?;
    let found = app.drifts(&caller, project.as_ref(), status, &request).await?;
    let render = |env: Environment| Drift::from(&env);
    paging::answer_visible(&app, caller.org, found, &name, render).await.map(Json)
}

/// Read the drift of an environment: what the last check has found, without any value, and the last checks. It also names the
/// resources of container jobs whose own last check has found that they differ.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/drift",
    tag = "Environment", operation_id = "getDrift",
    responses((status = 200, description = "The drift.", body = DriftDetails), OfList))]
async fn get(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
) -> Result<Json<DriftDetails>, ApiError> {
    Ok(Json(app.drift(&caller, &project, &env).await?))
}

/// Check an environment for drift: a job plans what was deployed last, beside the environment's queue, and changes nothing. The
/// answer is its deployment, or that of the check which is open already. A deployment in the environment ends the check.
#[utoipa::path(post,
    path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/drift/actions/check",
    tag = "Environment", operation_id = "checkDrift",
    responses((status = 201, description = "The check.", body = Deployment), OfAction))]
async fn check(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
) -> Result<(StatusCode, Json<Deployment>), ApiError> {
    let check = app.check_drift(&caller, project, env).await?;
    Ok((StatusCode::CREATED, Json(render::summary(&caller.org_id, &check))))
}
