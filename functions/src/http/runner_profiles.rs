//! Profiles of runners.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::runner_profiles::ProfileChange;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::runner_profile::{RunnerProfile, RunnerProfileCreateBody, RunnerProfileUpdateBody};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{OrgId, RunnerProfileId};
use canyon_domain::runner_profile::{self, ProfileSettings};
use serde_json::json;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create a runner profile.
#[utoipa::path(post, path = "/orgs/{orgId}/runner-profiles", tag = "RunnerProfile",
    operation_id = "createRunnerProfile",
    request_body = RunnerProfileCreateBody,
    responses((status = 201, description = "Created.", body = RunnerProfile), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<RunnerProfileCreateBody>,
) -> Result<(StatusCode, Json<RunnerProfile>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id = fields::id(&mut faults, "id", &body.id);
    fields::check_description(&mut faults, body.description.as_deref());
    let settings = ProfileSettings::parse(body.agents, body.job);
    let settings = settings.map_err(|more| faults.add_under("", more)).ok();
    let settings = faults.into_result(settings)?;
    let (Some(id), Some(settings)) = (id, settings) else { return Err(ApiError::internal()) };
    let made = app.create_runner_profile(&caller, id, body.description, settings).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

/// List the runner profiles.
#[utoipa::path(get, path = "/orgs/{orgId}/runner-profiles", tag = "RunnerProfile",
    operation_id = "listRunnerProfiles",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<RunnerProfile>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<RunnerProfile>>, ApiError> {
    let name = "runner-profiles".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.runner_profiles(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |profile| render(&caller.org_id, profile))))
}

/// Read a runner profile.
#[utoipa::path(get, path = "/orgs/{orgId}/runner-profiles/{runnerProfileId}",
    tag = "RunnerProfile", operation_id = "getRunnerProfile",
    responses((status = 200, description = "The profile.", body = RunnerProfile), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, RunnerProfileId)>,
) -> Result<Json<RunnerProfile>, ApiError> {
    Ok(Json(render(&caller.org_id, app.runner_profile(&caller, &id).await?)))
}

/// Change a runner profile. Jobs that were launched before do not change.
#[utoipa::path(patch, path = "/orgs/{orgId}/runner-profiles/{runnerProfileId}",
    tag = "RunnerProfile", operation_id = "updateRunnerProfile",
    request_body = RunnerProfileUpdateBody,
    responses((status = 200, description = "Changed.", body = RunnerProfile), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, RunnerProfileId)>,
    body: Body<RunnerProfileUpdateBody>,
) -> Result<Json<RunnerProfile>, ApiError> {
    let mut faults = FieldErrors::default();
    let RunnerProfileUpdateBody { description, agents, job } = body.value;
    fields::check_description(&mut faults, description.as_deref());
    faults.into_result(())?;
    let change = ProfileChange { description, agents, job };
    let changed = app.update_runner_profile(&caller, &id, &change).await?;
    Ok(Json(render(&caller.org_id, changed)))
}

/// Delete a runner profile. Later deployments that need it fail.
#[utoipa::path(delete, path = "/orgs/{orgId}/runner-profiles/{runnerProfileId}",
    tag = "RunnerProfile", operation_id = "deleteRunnerProfile",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, RunnerProfileId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_runner_profile(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(org: &OrgId, of: runner_profile::RunnerProfile) -> RunnerProfile {
    // A profile that an older version has stored may fit no runner type any more.
    let kinds = of.settings.kinds().unwrap_or_default();
    RunnerProfile {
        org_id: org.to_string(),
        id: of.id.into(),
        description: of.description,
        runner_types: kinds.into_iter().map(|kind| kind.to_string()).collect(),
        agents: of.settings.agents.map(|agents| json!(agents)),
        job: of.settings.job,
        created_at: of.created_at,
        updated_at: of.updated_at,
    }
}
