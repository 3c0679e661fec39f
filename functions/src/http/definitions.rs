//! Resource definitions of the organization, at the paths of their published API.

use super::body::{Body, Params};
use super::caller::{Admin, Ids, Member, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::paging;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::definitions::DefinitionChange;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use canyon_api::page::{Page, PageQuery};
use canyon_api::resource_definition::{
    ConsideredDefinition, DriverInputs, MatchingCriterion, ResourceDefinition,
    ResourceDefinitionChange, ResourceExplanation,
};
use canyon_domain::definition::affected::Affected;
use canyon_domain::definition::criterion::Criterion;
use canyon_domain::definition::secrets::each_leaf;
use canyon_domain::definition::{Definition, DefinitionId, StoredDefinition};
use canyon_domain::ids::{EnvId, OrgId, ProjectId};
use canyon_domain::resource_name::ResourceName;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::IntoParams;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, replace, update, delete, add_criterion, remove_criterion, explain]
}

/// How a change is made.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Proposal {
    /// Only list the resources that would get another definition.
    #[serde(default)]
    proposed: bool,
}

/// How a deletion is made.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Force {
    /// Delete it although resources have it.
    #[serde(default)]
    force: bool,
}

/// Create a resource definition.
#[utoipa::path(post, path = "/orgs/{orgId}/resources/defs", tag = "Resource definitions",
    operation_id = "createResourceDefinition",
    request_body(content = Object),
    responses((status = 201, description = "Created.", body = ResourceDefinition), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<Value>,
) -> Result<(StatusCode, Json<ResourceDefinition>), ApiError> {
    let definition = Definition::parse(body.value)?;
    let made = app.create_definition(&caller, definition).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

/// List the resource definitions.
#[utoipa::path(get, path = "/orgs/{orgId}/resources/defs", tag = "Resource definitions",
    operation_id = "listResourceDefinitions",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<ResourceDefinition>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<ResourceDefinition>>, ApiError> {
    let name = "definitions".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.definitions(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |one| render(&caller.org_id, one))))
}

/// Read a resource definition.
#[utoipa::path(get, path = "/orgs/{orgId}/resources/defs/{defId}", tag = "Resource definitions",
    operation_id = "getResourceDefinition",
    responses((status = 200, description = "The definition.", body = ResourceDefinition), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, DefinitionId)>,
) -> Result<Json<ResourceDefinition>, ApiError> {
    Ok(Json(render(&caller.org_id, app.definition(&caller, &id).await?)))
}

/// Replace a resource definition.
#[utoipa::path(put, path = "/orgs/{orgId}/resources/defs/{defId}", tag = "Resource definitions",
    operation_id = "replaceResourceDefinition",
    params(Proposal),
    request_body(content = Object),
    responses((status = 200, description = "Replaced.", body = ResourceDefinition), OfWrite))]
async fn replace(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, DefinitionId)>,
    Params(proposal): Params<Proposal>,
    body: Body<Value>,
) -> Result<Response, ApiError> {
    let mut body = body.value;
    if let Value::Object(members) = &mut body {
        members.entry("id").or_insert_with(|| json!(id));
    }
    let change = DefinitionChange::Replace(Box::new(Definition::parse(body)?));
    changed(&app, &caller, &id, &change, proposal).await
}

/// Change a resource definition. The body is merged into it (RFC 7396).
#[utoipa::path(patch, path = "/orgs/{orgId}/resources/defs/{defId}", tag = "Resource definitions",
    operation_id = "updateResourceDefinition",
    params(Proposal),
    request_body(content = Object),
    responses((status = 200, description = "Changed.", body = ResourceDefinition), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, DefinitionId)>,
    Params(proposal): Params<Proposal>,
    body: Body<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let change = DefinitionChange::Merge(body.value);
    changed(&app, &caller, &id, &change, proposal).await
}

async fn changed(
    app: &App,
    caller: &Admin,
    id: &DefinitionId,
    change: &DefinitionChange,
    Proposal { proposed }: Proposal,
) -> Result<Response, ApiError> {
    if proposed {
        let found = app.propose_change(caller, id, change).await?;
        let found: Vec<_> = found.into_iter().map(render_change).collect();
        return Ok(Json(found).into_response());
    }
    let stored = app.change_definition(caller, id, change).await?;
    Ok(Json(render(&caller.org_id, stored)).into_response())
}

/// Delete a resource definition.
#[utoipa::path(delete, path = "/orgs/{orgId}/resources/defs/{defId}", tag = "Resource definitions",
    operation_id = "deleteResourceDefinition",
    params(Force),
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, DefinitionId)>,
    Params(Force { force }): Params<Force>,
) -> Result<StatusCode, ApiError> {
    app.delete_definition(&caller, &id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add a criterion to a resource definition.
#[utoipa::path(post, path = "/orgs/{orgId}/resources/defs/{defId}/criteria", tag = "Resource definitions",
    operation_id = "createResourceDefinitionCriteria",
    request_body(content = Object),
    responses((status = 201, description = "Added.", body = MatchingCriterion), OfWrite))]
async fn add_criterion(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, DefinitionId)>,
    body: Body<Value>,
) -> Result<(StatusCode, Json<MatchingCriterion>), ApiError> {
    let criterion = Criterion::parse(body.value)?;
    let change = DefinitionChange::AddCriterion(criterion.clone());
    app.change_definition(&caller, &id, &change).await?;
    Ok((StatusCode::CREATED, Json(render_criterion(&criterion))))
}

/// Remove a criterion of a resource definition.
#[utoipa::path(delete, path = "/orgs/{orgId}/resources/defs/{defId}/criteria/{criteriaId}",
    tag = "Resource definitions", operation_id = "deleteResourceDefinitionCriteria",
    responses((status = 204, description = "Removed."), OfAction))]
async fn remove_criterion(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id, criterion)): Ids<(String, DefinitionId, String)>,
) -> Result<StatusCode, ApiError> {
    let change = DefinitionChange::RemoveCriterion(criterion);
    app.change_definition(&caller, &id, &change).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Explain which definition a resource of an environment gets, and what would run for it.
#[utoipa::path(get,
    path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/resources/{resource}/explanation",
    tag = "Resource definitions", operation_id = "explainResource",
    responses((status = 200, description = "The explanation.", body = ResourceExplanation), OfRead))]
async fn explain(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env, name)): Ids<(String, ProjectId, EnvId, ResourceName)>,
) -> Result<Json<ResourceExplanation>, ApiError> {
    let explained = app.explain_resource(&caller, &project, &env, &name).await?;
    let considered = explained
        .considered
        .into_iter()
        .map(|(id, is_chosen, reason)| ConsideredDefinition { id: id.into(), is_chosen, reason });
    let considered = considered.collect();
    let resource = name.to_string();
    let mut answer = ResourceExplanation { resource, considered, ..ResourceExplanation::default() };
    match explained.job {
        Ok(job) => {
            let runs = if job.is_module { &mut answer.module } else { &mut answer.image };
            *runs = Some(job.source);
            answer.runner_id = Some(job.runner.into());
            answer.cluster = job.cluster;
        }
        Err(problem) => answer.problem = Some(problem),
    }
    Ok(Json(answer))
}

fn render(org: &OrgId, of: StoredDefinition) -> ResourceDefinition {
    let StoredDefinition { definition, created_at, updated_at, .. } = of;
    let mut secret_refs = definition.secrets;
    each_leaf(&mut secret_refs, "", &mut |_, members| {
        if members.contains_key("sealed") {
            *members = Map::from_iter([("sealed".to_owned(), json!(true))]);
        }
    });
    ResourceDefinition {
        org_id: org.to_string(),
        id: definition.id.into(),
        name: definition.name,
        resource_type: definition.resource_type,
        driver_type: definition.driver.to_string(),
        driver_account: definition.account,
        driver_inputs: DriverInputs { values: definition.values, secret_refs },
        criteria: definition.criteria.iter().map(render_criterion).collect(),
        created_at,
        updated_at,
    }
}

fn render_criterion(of: &Criterion) -> MatchingCriterion {
    let Criterion { env_type, app_id, env_id, res_id, class } = of.clone();
    MatchingCriterion { id: of.id(), env_type, app_id, env_id, res_id, class }
}

fn render_change(of: Affected) -> ResourceDefinitionChange {
    ResourceDefinitionChange {
        app_id: of.project.to_string(),
        env_id: of.env.to_string(),
        res_id: of.resource.to_string(),
        from_def: of.before.map(String::from),
        to_def: of.after.map(String::from),
    }
}
