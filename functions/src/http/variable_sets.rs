//! Variables of runners, of the organization, of projects, of environment types and of environments.

use super::body::Body;
use super::caller::{Admin, Ids, Member, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::variable_changes::VariableChanges;
use super::{fields, paging};
use crate::App;
use axum::Json;
use axum::extract::State;
use canyon_api::page::{Page, PageQuery};
use canyon_api::variable_set::{
    self as api, EffectiveVariables, VariableBody, VariableSet, VariableSetUpdateBody,
};
use canyon_api::variable_use::VariableSetQuery;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, EnvTypeId, ProjectId, RunnerId};
use canyon_domain::principal::Principal;
use canyon_domain::secret_reference::{SecretReference, SecretStoreId};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::edit::{VariableEdit, VariableEdits};
use canyon_domain::variables::effective::EffectiveVariable;
use canyon_domain::variables::{self, Variable, VariableKey, VariableKind, VariableValue};
use std::collections::BTreeMap;

pub(super) fn routes() -> Routes<App> {
    routes![
        list,
        of_runner,
        update_of_runner,
        of_organization,
        update_of_organization,
        of_project,
        update_of_project,
        of_env_type,
        update_of_env_type,
        of_environment,
        update_of_environment,
        effective,
    ]
}

/// List the sets of variables that the caller may read: of runners, of the organization, of projects and groups, of
/// environment types, of environments. A scope without variables has no set. With `store`, a page may have fewer entries than requested, or
/// none, although another page follows.
#[utoipa::path(get, path = "/orgs/{orgId}/variable-sets", tag = "Variables",
    operation_id = "listVariableSets",
    params(VariableSetQuery, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<VariableSet>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    ListQuery { filter: query, page }: ListQuery<VariableSetQuery>,
) -> Result<Json<Page<VariableSet>>, ApiError> {
    let mut faults = FieldErrors::default();
    let store = query.store.and_then(|id| fields::id(&mut faults, "store", &id));
    faults.into_result(())?;
    let of_store = |id: &SecretStoreId| format!("variable-sets?store={id}");
    let name = store.as_ref().map_or_else(|| "variable-sets".to_owned(), of_store);
    let request = paging::request_of_visible(&app, caller.org, &page, &name).await?;
    let found = match &store {
        Some(store) => app.variable_sets_with_store(&caller, store, request).await?,
        None => app.variable_sets(&caller, &request).await?,
    };
    paging::answer_visible(&app, caller.org, found, &name, render).await.map(Json)
}

/// Read the variables of a runner, which apply to the runs of every environment on it.
#[utoipa::path(get, path = "/orgs/{orgId}/runners/{runnerId}/variables", tag = "Variables",
    operation_id = "getRunnerVariables",
    responses((status = 200, description = "The variables.", body = VariableSet), OfRead))]
async fn of_runner(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, runner)): Ids<(String, RunnerId)>,
) -> Result<Json<VariableSet>, ApiError> {
    read(&app, &caller, VariableScope::Runner(runner)).await
}

/// Change variables of a runner. Jobs that have begun keep the values that they got.
#[utoipa::path(patch, path = "/orgs/{orgId}/runners/{runnerId}/variables", tag = "Variables",
    operation_id = "updateRunnerVariables",
    request_body = VariableSetUpdateBody,
    responses((status = 200, description = "Changed.", body = VariableSet), OfWrite))]
async fn update_of_runner(
    State(app): State<App>,
    caller: Admin,
    Ids((_, runner)): Ids<(String, RunnerId)>,
    body: Body<VariableChanges>,
) -> Result<Json<VariableSet>, ApiError> {
    update(&app, &caller, VariableScope::Runner(runner), body.value).await
}

/// Read the variables of the organization, which apply to each of its environments.
#[utoipa::path(get, path = "/orgs/{orgId}/variables", tag = "Variables",
    operation_id = "getOrganizationVariables",
    responses((status = 200, description = "The variables.", body = VariableSet), OfRead))]
async fn of_organization(
    State(app): State<App>,
    caller: Viewer,
) -> Result<Json<VariableSet>, ApiError> {
    read(&app, &caller, VariableScope::Organization).await
}

/// Change variables of the organization. Jobs that have begun keep the values that they got.
#[utoipa::path(patch, path = "/orgs/{orgId}/variables", tag = "Variables",
    operation_id = "updateOrganizationVariables",
    request_body = VariableSetUpdateBody,
    responses((status = 200, description = "Changed.", body = VariableSet), OfWrite))]
async fn update_of_organization(
    State(app): State<App>,
    caller: Admin,
    body: Body<VariableChanges>,
) -> Result<Json<VariableSet>, ApiError> {
    update(&app, &caller, VariableScope::Organization, body.value).await
}

/// Read the variables of a project, or of a group of projects.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/variables", tag = "Variables",
    operation_id = "getProjectVariables",
    responses((status = 200, description = "The variables.", body = VariableSet), OfRead))]
async fn of_project(
    State(app): State<App>,
    caller: Member,
    Ids((_, project)): Ids<(String, ProjectId)>,
) -> Result<Json<VariableSet>, ApiError> {
    read(&app, &caller, VariableScope::Project(project)).await
}

/// Change variables of a project, or of a group of projects. Jobs that have begun keep the values that they got.
#[utoipa::path(patch, path = "/orgs/{orgId}/projects/{projectId}/variables", tag = "Variables",
    operation_id = "updateProjectVariables",
    request_body = VariableSetUpdateBody,
    responses((status = 200, description = "Changed.", body = VariableSet), OfWrite))]
async fn update_of_project(
    State(app): State<App>,
    caller: Member,
    Ids((_, project)): Ids<(String, ProjectId)>,
    body: Body<VariableChanges>,
) -> Result<Json<VariableSet>, ApiError> {
    update(&app, &caller, VariableScope::Project(project), body.value).await
}

/// Read the variables of an environment type, which apply to its environments in every project.
#[utoipa::path(get, path = "/orgs/{orgId}/env-types/{envTypeId}/variables", tag = "Variables",
    operation_id = "getEnvironmentTypeVariables",
    responses((status = 200, description = "The variables.", body = VariableSet), OfRead))]
async fn of_env_type(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, env_type)): Ids<(String, EnvTypeId)>,
) -> Result<Json<VariableSet>, ApiError> {
    read(&app, &caller, VariableScope::EnvType(env_type)).await
}

/// Change variables of an environment type. Jobs that have begun keep the values that they got.
#[utoipa::path(patch, path = "/orgs/{orgId}/env-types/{envTypeId}/variables", tag = "Variables",
    operation_id = "updateEnvironmentTypeVariables",
    request_body = VariableSetUpdateBody,
    responses((status = 200, description = "Changed.", body = VariableSet), OfWrite))]
async fn update_of_env_type(
    State(app): State<App>,
    caller: Admin,
    Ids((_, env_type)): Ids<(String, EnvTypeId)>,
    body: Body<VariableChanges>,
) -> Result<Json<VariableSet>, ApiError> {
    update(&app, &caller, VariableScope::EnvType(env_type), body.value).await
}

/// Read the variables of an environment alone. `variables/effective` has those of wider scopes too.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/variables",
    tag = "Variables", operation_id = "getEnvironmentVariables",
    responses((status = 200, description = "The variables.", body = VariableSet), OfRead))]
async fn of_environment(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
) -> Result<Json<VariableSet>, ApiError> {
    read(&app, &caller, VariableScope::Environment(project, env)).await
}

/// Change variables of an environment. Jobs that have begun keep the values that they got.
#[utoipa::path(patch, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/variables",
    tag = "Variables", operation_id = "updateEnvironmentVariables",
    request_body = VariableSetUpdateBody,
    responses((status = 200, description = "Changed.", body = VariableSet), OfWrite))]
async fn update_of_environment(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    body: Body<VariableChanges>,
) -> Result<Json<VariableSet>, ApiError> {
    update(&app, &caller, VariableScope::Environment(project, env), body.value).await
}

/// Read the variables that a job of an environment gets, and the scope that each is from. Of two scopes with the same
/// variable the nearer one wins: environment, environment type, project, its groups from the
/// inside, organization, the environment's runner.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/variables/effective",
    tag = "Variables", operation_id = "getEffectiveVariables",
    responses((status = 200, description = "The variables.", body = EffectiveVariables), OfRead))]
async fn effective(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
) -> Result<Json<EffectiveVariables>, ApiError> {
    let found = app.effective_variables(&caller, &project, &env).await?;
    let (terraform, environment) =
        by_kind(found, |EffectiveVariable { variable, from, overrides }| api::EffectiveVariable {
            secret: variable.value.is_secret(),
            reference: reference_of(&variable.value),
            value: shown(variable.value),
            from: from.to_string(),
            overrides: overrides.iter().map(ToString::to_string).collect(),
        });
    Ok(Json(EffectiveVariables { terraform, environment }))
}

async fn read(
    app: &App,
    caller: &Principal,
    scope: VariableScope,
) -> Result<Json<VariableSet>, ApiError> {
    Ok(Json(render(app.variable_set(caller, &scope).await?)))
}

async fn update(
    app: &App,
    caller: &Principal,
    scope: VariableScope,
    changes: VariableChanges,
) -> Result<Json<VariableSet>, ApiError> {
    let VariableChanges { body, mut faults } = changes;
    let mut edits = VariableEdits::default();
    for (kind, given) in
        [(VariableKind::Terraform, body.terraform), (VariableKind::Environment, body.environment)]
    {
        let mut edit_of = |name: &str, body: VariableBody| {
            let VariableBody { value, reference, secret, description } = body;
            let path = || format!("{}[{name:?}].reference.store", kind.as_str());
            let reference = reference.and_then(|given| {
                let store = fields::id(&mut faults, &path(), &given.store)?;
                Some(SecretReference { store, locator: given.locator, version: given.version })
            });
            VariableEdit { value, reference, secret, description }
        };
        let given = given.into_iter().map(|(name, body)| {
            let edit = body.map(|body| edit_of(&name, body));
            (name, edit)
        });
        let given = given.collect();
        edits.read(kind, given, &mut faults);
    }
    if edits.is_empty() && faults.is_empty() {
        faults.add("", "changes nothing: give variables in `terraform` or `environment`");
    }
    faults.into_result(())?;
    Ok(Json(render(app.update_variable_set(caller, &scope, &edits).await?)))
}

fn render(set: variables::VariableSet) -> VariableSet {
    let updated_at = (set.version > 0).then_some(set.updated_at);
    let (terraform, environment) = by_kind(set.variables, |variable: Variable| api::Variable {
        secret: variable.value.is_secret(),
        reference: reference_of(&variable.value),
        value: shown(variable.value),
        description: variable.description,
        updated_at: variable.updated_at,
        updated_by: variable.updated_by.0,
    });
    VariableSet { scope: set.scope.to_string(), terraform, environment, updated_at }
}

/// The value, unless it is a secret.
fn shown(value: VariableValue) -> Option<canyon_domain::json::Json> {
    match value {
        VariableValue::Plain(value) => Some(value),
        VariableValue::Sealed(_) | VariableValue::Reference(_) => None,
    }
}

fn reference_of(value: &VariableValue) -> Option<api::SecretReference> {
    match value {
        VariableValue::Reference(SecretReference { store, locator, version }) => {
            Some(api::SecretReference {
                store: store.to_string(),
                locator: locator.clone(),
                version: version.clone(),
            })
        }
        VariableValue::Plain(_) | VariableValue::Sealed(_) => None,
    }
}

type ByName<T> = BTreeMap<String, T>;

fn by_kind<T, U>(all: BTreeMap<VariableKey, T>, render: impl Fn(T) -> U) -> (ByName<U>, ByName<U>) {
    let (mut terraform, mut environment) = (BTreeMap::new(), BTreeMap::new());
    for (key, variable) in all {
        let of_kind = match key.kind {
            VariableKind::Terraform => &mut terraform,
            VariableKind::Environment => &mut environment,
        };
        of_kind.insert(key.name, render(variable));
    }
    (terraform, environment)
}
