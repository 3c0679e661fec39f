//! Environment types.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::fields;
use super::list_query::ListQuery;
use super::paging;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::env_types::TypeRules;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::env_type::{EnvironmentType, EnvironmentTypeCreateBody, EnvironmentTypeUpdateBody};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::EnvTypeId;
use canyon_domain::inventory;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create an environment type.
#[utoipa::path(post, path = "/orgs/{orgId}/env-types", tag = "EnvironmentType",
    operation_id = "createEnvironmentType",
    request_body = EnvironmentTypeCreateBody,
    responses((status = 201, description = "Created.", body = EnvironmentType), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<EnvironmentTypeCreateBody>,
) -> Result<(StatusCode, Json<EnvironmentType>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id = fields::id(&mut faults, "id", &body.id);
    let name = fields::display_name_or_id(&mut faults, body.display_name, &body.id);
    let (Some(id), Some(name)) = (id, name) else { return Err(faults.into()) };
    let protection = body.deletion_protection.map(Into::into);
    let approval = body.approval.map(|rule| fields::approval_rule(&app, rule, &mut faults));
    let policy = body.policy.map(|policy| Box::new(fields::policy(policy, &mut faults)));
    faults.into_result(())?;
    let rules = TypeRules { deletion_protection: protection, approval, policy };
    let made = app.create_env_type(&caller, id, name, rules).await?;
    Ok((StatusCode::CREATED, Json(render(made))))
}

/// List the environment types.
#[utoipa::path(get, path = "/orgs/{orgId}/env-types", tag = "EnvironmentType",
    operation_id = "listEnvironmentTypes",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<EnvironmentType>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<EnvironmentType>>, ApiError> {
    let name = "env-types".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.env_types(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, in_list)))
}

/// Read an environment type.
#[utoipa::path(get, path = "/orgs/{orgId}/env-types/{envTypeId}", tag = "EnvironmentType",
    operation_id = "getEnvironmentType",
    responses((status = 200, description = "The environment type.", body = EnvironmentType), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, EnvTypeId)>,
) -> Result<Json<EnvironmentType>, ApiError> {
    Ok(Json(render(app.env_type(&caller, &id).await?)))
}

/// Change an environment type.
#[utoipa::path(patch, path = "/orgs/{orgId}/env-types/{envTypeId}", tag = "EnvironmentType",
    operation_id = "updateEnvironmentType",
    request_body = EnvironmentTypeUpdateBody,
    responses((status = 200, description = "Changed.", body = EnvironmentType), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, EnvTypeId)>,
    body: Body<EnvironmentTypeUpdateBody>,
) -> Result<Json<EnvironmentType>, ApiError> {
    let body = body.value;
    let update = fields::update(
        &app,
        body.display_name,
        body.deletion_protection,
        body.approval,
        body.policy,
        None,
    )?;
    Ok(Json(render(app.update_env_type(&caller, &id, &update).await?)))
}

/// Delete an environment type that nothing uses.
#[utoipa::path(delete, path = "/orgs/{orgId}/env-types/{envTypeId}", tag = "EnvironmentType",
    operation_id = "deleteEnvironmentType",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, EnvTypeId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_env_type(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The item of a list: 100 policies would not fit into an answer.
fn in_list(of: inventory::EnvironmentType) -> EnvironmentType {
    EnvironmentType { policy: None, ..render(of) }
}

fn render(of: inventory::EnvironmentType) -> EnvironmentType {
    EnvironmentType {
        id: of.id.into(),
        uuid: of.uuid,
        display_name: of.display_name.into(),
        deletion_protection: of.deletion_protection.map(Into::into),
        approval: of.approval.map(Into::into),
        policy_digest: of.policy.as_ref().map(|policy| policy.digest().to_string()),
        policy: of.policy.map(|policy| (*policy).into()),
        created_at: of.created_at,
    }
}
