//! Projects.

use super::body::{Body, Params};
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::fields;
use super::list_query::ListQuery;
use super::paging;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::project::{Project, ProjectCreateBody, ProjectUpdateBody};
use canyon_domain::change::Change;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::ProjectId;
use canyon_domain::inventory;
use canyon_domain::runner::agents::ProfileName;
use serde::Deserialize;
use utoipa::IntoParams;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create a project. A scoped role in its group suffices.
#[utoipa::path(post, path = "/orgs/{orgId}/projects", tag = "Project",
    operation_id = "createProject",
    request_body = ProjectCreateBody,
    responses((status = 201, description = "Created.", body = Project), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Member,
    body: Body<ProjectCreateBody>,
) -> Result<(StatusCode, Json<Project>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id: Option<ProjectId> = fields::id(&mut faults, "id", &body.id);
    if id.as_ref().is_some_and(ProjectId::is_like_a_path) {
        let reason = "ends like a path of the API: in a group, no project is called `variables` or `git-credentials`";
        faults.add("id", reason);
    }
    let name = fields::display_name_or_id(&mut faults, body.display_name, &body.id);
    let profile = body.profile.and_then(|given| profile(&mut faults, &given));
    let (Some(id), Some(name), true) = (id, name, faults.is_empty()) else {
        return Err(faults.into());
    };
    let made = app.create_project(&caller, id, name, profile).await?;
    Ok((StatusCode::CREATED, Json(render(made))))
}

/// List the projects.
#[utoipa::path(get, path = "/orgs/{orgId}/projects", tag = "Project",
    operation_id = "listProjects",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Project>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<Project>>, ApiError> {
    let name = "projects".to_owned();
    let request = paging::request_of_visible(&app, caller.org, &page, &name).await?;
    let found = app
        .table
        .projects(caller.org, &request, |project| caller.sees_project(&project.id))
        .await?;
    paging::answer_visible(&app, caller.org, found, &name, render).await.map(Json)
}

/// Read a project.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}", tag = "Project",
    operation_id = "getProject",
    responses((status = 200, description = "The project.", body = Project), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, ProjectId)>,
) -> Result<Json<Project>, ApiError> {
    Ok(Json(render(app.project(&caller, &id).await?)))
}

/// Change a project.
#[utoipa::path(patch, path = "/orgs/{orgId}/projects/{projectId}", tag = "Project",
    operation_id = "updateProject",
    request_body = ProjectUpdateBody,
    responses((status = 200, description = "Changed.", body = Project), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, ProjectId)>,
    body: Body<ProjectUpdateBody>,
) -> Result<Json<Project>, ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let given = body.profile.map(|given| profile(&mut faults, &given));
    let name = fields::changed_display_name(body.display_name, !given.is_keep());
    let name = name.map_err(|others| faults.add_under("", others)).ok().flatten();
    faults.into_result(())?;
    let profile = match &given {
        Change::Set(profile) => profile.as_ref().map_or(Change::Keep, Change::Set),
        Change::Remove => Change::Remove,
        Change::Keep => Change::Keep,
    };
    Ok(Json(render(app.change_project(&caller, &id, name.as_ref(), profile).await?)))
}

/// The profile in the field `profile`.
fn profile(faults: &mut FieldErrors, given: &str) -> Option<ProfileName> {
    ProfileName::of_project(given).map_err(|error| faults.add("profile", error.to_string())).ok()
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DeleteQuery {
    /// Also delete the runner rules that name the project.
    #[serde(default, rename = "deleteRules")]
    #[param(required = false, default = false)]
    delete_rules: bool,
}

/// Delete a project that nothing uses.
#[utoipa::path(delete, path = "/orgs/{orgId}/projects/{projectId}", tag = "Project",
    operation_id = "deleteProject",
    params(DeleteQuery),
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, ProjectId)>,
    Params(query): Params<DeleteQuery>,
) -> Result<StatusCode, ApiError> {
    app.delete_project(&caller, &id, query.delete_rules).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(of: inventory::Project) -> Project {
    Project {
        id: of.id.into(),
        uuid: of.uuid,
        display_name: of.display_name.into(),
        profile: of.profile.map(|profile| profile.to_string()),
        created_at: of.created_at,
        updated_at: of.updated_at,
        status: "active".to_owned(),
    }
}
