//! Environments.

use super::body::{Body, Params};
use super::caller::{Ids, Member};
use super::environment_filter::EnvironmentFilter;
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::at_a_glance::AtAGlance;
use crate::app::environments::{Deletion, EnvironmentRequest, Refresh, Removal};
use crate::app::names::Names;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use canyon_api::drift::Drift;
use canyon_api::environment::{
    DeploymentBrief, Environment, EnvironmentCreateBody, EnvironmentDeployments, EnvironmentState,
    EnvironmentUpdateBody, RefreshRunnerActionResult,
};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::backend::state_location;
use canyon_domain::change::Change;
use canyon_domain::deployment::Deployment;
use canyon_domain::environment_state;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, EnvUuid, ProjectId};
use canyon_domain::inventory::{self, EnvironmentStatus};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::to_json::to_json_text;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;
use uuid::Uuid;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, list_in_org, get, update, delete, refresh_runner]
}

/// Create an environment. It is linked to the runner that the rules choose.
#[utoipa::path(post, path = "/orgs/{orgId}/projects/{projectId}/envs", tag = "Environment",
    operation_id = "createEnvironment",
    request_body = EnvironmentCreateBody,
    responses((status = 201, description = "Created.", body = Environment), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Member,
    Ids((_, project)): Ids<(String, ProjectId)>,
    body: Body<EnvironmentCreateBody>,
) -> Result<(StatusCode, Json<Environment>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id = fields::id(&mut faults, "id", &body.id);
    let env_type = fields::id(&mut faults, "env_type_id", &body.env_type_id);
    let name = fields::display_name_or_id(&mut faults, body.display_name, &body.id);
    let (Some(id), Some(env_type), Some(display_name)) = (id, env_type, name) else {
        return Err(faults.into());
    };
    let deletion_protection = body.deletion_protection.map(Into::into);
    let order = EnvironmentRequest { id, project, env_type, display_name, deletion_protection };
    let made = app.create_environment(&caller, order).await?;
    Ok((StatusCode::CREATED, Json(render(made))))
}

/// List the environments of a project.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs", tag = "Environment",
    operation_id = "listEnvironments",
    params(EnvironmentFilter, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Environment>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    Ids((_, project)): Ids<(String, ProjectId)>,
    ListQuery { filter, page }: ListQuery<EnvironmentFilter>,
) -> Result<Json<Page<Environment>>, ApiError> {
    app.project(&caller, &project).await?;
    page_of(&app, &caller, Some(&project), &filter.types, &page).await
}

/// List the environments of the organization.
#[utoipa::path(get, path = "/orgs/{orgId}/envs", tag = "Environment",
    operation_id = "listEnvironmentsInOrg",
    params(EnvironmentFilter, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Environment>), OfList))]
async fn list_in_org(
    State(app): State<App>,
    caller: Member,
    ListQuery { filter, page }: ListQuery<EnvironmentFilter>,
) -> Result<Json<Page<Environment>>, ApiError> {
    page_of(&app, &caller, None, &filter.types, &page).await
}

async fn page_of(
    app: &App,
    caller: &Principal,
    project: Option<&ProjectId>,
    types: &[String],
    page: &PageQuery,
) -> Result<Json<Page<Environment>>, ApiError> {
    let of = project.map_or("*", ProjectId::as_str);
    let name = format!("envs?project={of}&types={}", types.join(","));
    let request = paging::request_of_visible(app, caller.org, page, &name).await?;
    let found = app.environments(caller, project, types, &request).await?;
    paging::answer_visible(app, caller.org, found, &name, render).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ReadQuery {
    /// Also report if no agent could take a deployment, as `no_agent_reason`.
    #[serde(default)]
    #[param(required = false, default = false)]
    no_agent_reason: bool,
}

/// Read an environment.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}", tag = "Environment",
    operation_id = "getEnvironment",
    params(ReadQuery),
    responses((status = 200, description = "The environment.", body = Environment), OfList))]
async fn get(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    Params(query): Params<ReadQuery>,
) -> Result<Json<Environment>, ApiError> {
    let found = app.environment(&caller, Role::Viewer, &project, &env).await?;
    let no_agent_reason =
        if query.no_agent_reason { app.no_agent_reason(caller.org, &found).await? } else { None };
    let deployments = app.deployments_at_a_glance(&found, caller.org).await?;
    let shown = deployments.last.iter().chain(&deployments.last_success);
    let names = app.names(&caller, shown.map(|shown| shown.created_by)).await?;
    let deployments = deployments.last.is_some().then(|| render_deployments(&deployments, &names));
    Ok(Json(Environment { deployments, no_agent_reason, ..render(found) }))
}

/// Change an environment.
#[utoipa::path(patch, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}",
    tag = "Environment", operation_id = "updateEnvironment",
    request_body = EnvironmentUpdateBody,
    responses((status = 200, description = "Changed.", body = Environment), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    body: Body<EnvironmentUpdateBody>,
) -> Result<Json<Environment>, ApiError> {
    let body = body.value;
    let ignore = body.drift_ignore.map(|rules| rules.into_iter().map(Into::into).collect());
    let update = fields::update(
        &app,
        body.display_name,
        body.deletion_protection,
        body.approval,
        Change::Keep,
        ignore,
    )?;
    let changed = app.update_environment(&caller, &project, &env, &update).await?;
    Ok(Json(render(changed)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DeleteQuery {
    /// Leave the deployed resources behind instead of destroying them.
    #[serde(default)]
    #[param(required = false, default = false)]
    force: bool,
    /// The UUID of the environment to delete. If another environment has this name by now, nothing is deleted (409).
    #[param(required = false)]
    uuid: Option<Uuid>,
    /// Accepted for compatibility: no rule names an environment, so there is none to delete.
    #[serde(default, rename = "deleteRules")]
    #[param(required = false, default = false)]
    #[expect(dead_code, reason = "it is read so that a wrong value is refused")]
    delete_rules: bool,
}

/// Delete an environment. Its deployed resources are destroyed first.
#[utoipa::path(delete, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}",
    tag = "Environment", operation_id = "deleteEnvironment",
    params(DeleteQuery),
    responses(
        (status = 202, description = "It is deleted when its destroy run has succeeded.",
         body = Environment),
        (status = 204, description = "Deleted."),
        OfAction,
    ))]
async fn delete(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    Params(query): Params<DeleteQuery>,
) -> Result<Response, ApiError> {
    let how = Deletion { force: query.force, only: query.uuid.map(EnvUuid) };
    match Box::pin(app.delete_environment(&caller, &project, &env, how)).await? {
        Removal::Gone => Ok(StatusCode::NO_CONTENT.into_response()),
        Removal::Destroying(environment) => {
            Ok((StatusCode::ACCEPTED, Json(render(*environment))).into_response())
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RefreshQuery {
    /// Only report which runner the rules choose.
    #[serde(default)]
    #[param(required = false, default = false)]
    dry_run: bool,
    /// Let the next run move the environment's state to the storage of the new runner.
    #[serde(default)]
    #[param(required = false, default = false)]
    migrate: bool,
}

/// Link an environment to the runner that the rules choose now.
#[utoipa::path(post,
    path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/actions/refresh_runner",
    tag = "Environment", operation_id = "updateRunnerInAnEnvironment",
    params(RefreshQuery),
    responses(
        (status = 200, description = "The runner that is, or would be, linked.",
         body = RefreshRunnerActionResult),
        OfAction,
    ))]
async fn refresh_runner(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    Params(query): Params<RefreshQuery>,
) -> Result<Json<RefreshRunnerActionResult>, ApiError> {
    let how = Refresh { dry_run: query.dry_run, migrate: query.migrate };
    let refreshed = app.refresh_runner(&caller, &project, &env, how).await?;
    Ok(Json(RefreshRunnerActionResult {
        runner_id: refreshed.runner.into(),
        fallback_runner_ids: refreshed.fallbacks.into_iter().map(Into::into).collect(),
        updated: refreshed.updated,
        moves_state_to: refreshed.moves_state_to,
    }))
}

fn render(of: inventory::Environment) -> Environment {
    let status = match of.status {
        EnvironmentStatus::Active => "active",
        EnvironmentStatus::Deleting => "deleting",
        EnvironmentStatus::DeleteFailed => "delete_failed",
    };
    let drift = of.drift.as_ref().map(|_| Drift::from(&of));
    let rules = of.drift.map(|drift| drift.ignore).unwrap_or_default();
    Environment {
        id: of.id.into(),
        uuid: of.uuid.0,
        project_id: of.project_id.into(),
        project_uuid: of.project_uuid,
        env_type_id: of.env_type_id.into(),
        display_name: of.display_name.into(),
        created_at: of.created_at,
        updated_at: of.updated_at,
        status: status.to_owned(),
        status_message: of.status_message,
        runner_id: of.runner_id.into(),
        fallback_runner_ids: of.fallback_runner_ids.into_iter().map(Into::into).collect(),
        state: of.module.state.map(|state| render_state(&state, of.uuid)),
        resources: of.resources.iter().map(Into::into).collect(),
        deletion_protection: of.deletion_protection.map(Into::into),
        approval: of.approval.map(|rule| (*rule).into()),
        type_policy: of.type_policy.map(|digest| digest.to_string()),
        type_approval: of.type_approval.map(|rule| (*rule).into()),
        drift,
        drift_ignore: rules.into_iter().map(Into::into).collect(),
        deployments: None,
        no_agent_reason: None,
    }
}

fn render_deployments(of: &AtAGlance, names: &Names) -> EnvironmentDeployments {
    let brief = |of: &Deployment| DeploymentBrief {
        id: of.id.0,
        mode: of.mode.as_str().to_owned(),
        plan_only: of.plan_only,
        status: of.status.as_str().to_owned(),
        created_at: of.created_at,
        created_by: of.created_by.0,
        created_by_name: names.of(of.created_by),
        completed_at: of.completed_at,
    };
    EnvironmentDeployments {
        last: of.last.as_ref().map(brief),
        last_success: of.last_success.as_ref().map(brief),
        current: of.queue.current.map(|id| id.0),
        waiting: u32::try_from(of.queue.waiting.len()).unwrap_or(u32::MAX),
        blocked_by_lock: of.blocking_lock().map(|lock| lock.id.clone()),
    }
}

fn render_state(of: &environment_state::EnvironmentState, env: EnvUuid) -> EnvironmentState {
    let definition = to_json_text(&of.storage);
    EnvironmentState {
        location: state_location(&of.storage, env),
        storage_type: of.storage.storage_type().to_string(),
        storage_digest: hex::encode(Sha256::digest(definition)),
        lineage: of.facts.as_ref().map(|facts| facts.lineage.clone()),
        serial: of.facts.as_ref().map(|facts| facts.serial),
        resources: of.facts.as_ref().map(|facts| facts.resources),
        uncertain: of.doubt.is_some(),
        reported_by: of.reported.map(|reported| reported.by.0),
        reported_at: of.reported.map(|reported| reported.at),
        moves_to: of.may_move_to.as_ref().map(|to| state_location(to, env)),
    }
}
