//! Runners.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::runners::stored_warnings;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::named_role::EnabledRole;
use canyon_api::page::{Page, PageQuery};
use canyon_api::runner::{
    ConfigurationSummary, FieldWarning, Runner, RunnerCreateBody, RunnerQuery, RunnerSummary,
    RunnerUpdateBody,
};
use canyon_domain::enabled_role as domain;
use canyon_domain::field_error::{FieldError, FieldErrors};
use canyon_domain::ids::{OrgId, RunnerId};
use canyon_domain::principal::Role;
use canyon_domain::requested_role::RoleName;
use canyon_domain::runner::{RunnerDefinition, certificate};
use canyon_domain::scoped_role::Target;
use canyon_store::runners::RunnerRecord;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create a runner.
#[utoipa::path(post, path = "/orgs/{orgId}/runners", tag = "Runner",
    operation_id = "createRunner",
    request_body = RunnerCreateBody,
    responses((status = 201, description = "Created.", body = Runner), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<RunnerCreateBody>,
) -> Result<(StatusCode, Json<Runner>), ApiError> {
    let mut faults = FieldErrors::default();
    let id = fields::id(&mut faults, "id", &body.value.id);
    let definition = RunnerDefinition::parse(definition(body.value));
    let definition = definition.map_err(|more| faults.add_under("", more)).ok();
    let (Some(id), Some(definition)) = (id, definition) else { return Err(faults.into()) };
    let (made, warnings) = app.create_runner(&caller, id, definition).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made, warnings, app.now())?)))
}

fn definition(body: RunnerCreateBody) -> Value {
    let mut definition = json!({
        "runner_configuration": body.runner_configuration,
        "state_storage_configuration": body.state_storage_configuration,
    });
    if let Some(description) = body.description {
        definition["description"] = Value::String(description);
    }
    definition
}

/// List the runners.
#[utoipa::path(get, path = "/orgs/{orgId}/runners", tag = "Runner", operation_id = "listRunners",
    params(RunnerQuery, PageQuery),
    responses(
        (status = 200, description = "A page of the list.", body = Page<RunnerSummary>),
        OfList,
    ))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { filter: query, page }: ListQuery<RunnerQuery>,
) -> Result<Json<Page<RunnerSummary>>, ApiError> {
    let kind = query.by_runner_type.as_deref();
    let name = format!("runners?type={}", kind.unwrap_or("*"));
    let request = paging::request(&page, &name)?;
    let found = app.runners(&caller, kind, &request).await?;
    let mut failed = None;
    let page = paging::answer(found, &name, |runner| {
        summary(&caller.org_id, runner).map_err(|error| failed = Some(error)).ok()
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(Json(Page {
            items: page.items.into_iter().flatten().collect(),
            next_page_token: page.next_page_token,
        })),
    }
}

/// Read a runner. Its secrets are never shown. Text in a certificate's field that is no certificate is shown only to
/// administrators.
#[utoipa::path(get, path = "/orgs/{orgId}/runners/{runnerId}", tag = "Runner",
    operation_id = "getRunner",
    responses((status = 200, description = "The runner.", body = Runner), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, RunnerId)>,
) -> Result<Json<Runner>, ApiError> {
    let runner = app.runner(&caller, &id).await?;
    let warnings = stored_warnings(&runner)?;
    let mut runner = render(&caller.org_id, runner, warnings, app.now())?;
    if caller.role_in(Target::Organization) < Role::Admin {
        certificate::withhold(&mut runner.runner_configuration);
    }
    Ok(Json(runner))
}

/// Change a runner. Omitted fields stay, also omitted secrets.
#[utoipa::path(patch, path = "/orgs/{orgId}/runners/{runnerId}", tag = "Runner",
    operation_id = "updateRunner",
    request_body = RunnerUpdateBody,
    responses((status = 200, description = "Changed.", body = Runner), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, RunnerId)>,
    body: Body<RunnerUpdateBody>,
) -> Result<Json<Runner>, ApiError> {
    let (disabled, migrate) = (body.value.disabled, body.value.migrate);
    let patch = patch(body.value);
    let changes_more = patch.as_object().is_some_and(|parts| !parts.is_empty());
    let (changed, warnings) = match disabled {
        Some(disabled) if !changes_more => {
            let switched = app.switch_runner(&caller, &id, disabled).await?;
            let warnings = stored_warnings(&switched)?;
            (switched, warnings)
        }
        _ => app.update_runner(&caller, &id, &patch, disabled, migrate).await?,
    };
    Ok(Json(render(&caller.org_id, changed, warnings, app.now())?))
}

fn patch(body: RunnerUpdateBody) -> Value {
    let parts = [
        ("description", body.description.map(Value::String)),
        ("runner_configuration", body.runner_configuration),
        ("state_storage_configuration", body.state_storage_configuration),
    ];
    let given = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?)));
    Value::Object(given.collect())
}

/// Delete a runner that nothing uses.
#[utoipa::path(delete, path = "/orgs/{orgId}/runners/{runnerId}", tag = "Runner",
    operation_id = "deleteRunner",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, RunnerId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_runner(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A stored definition, or the part of it that `C` reads. It was validated when it was written.
#[derive(Deserialize)]
struct Definition<C> {
    description: Option<String>,
    runner_configuration: C,
    state_storage_configuration: C,
}

fn read<C: DeserializeOwned>(runner: &RunnerRecord) -> Result<Definition<C>, ApiError> {
    serde_json::from_str(&runner.definition).map_err(|error| {
        tracing::error!(runner = %runner.id, %error, "the stored runner cannot be read");
        ApiError::internal()
    })
}

/// A runner as its readers see it at `now`.
pub(super) fn render(
    org: &OrgId,
    of: RunnerRecord,
    warnings: Vec<FieldError>,
    now: Timestamp,
) -> Result<Runner, ApiError> {
    let warning = |FieldError { path, reason }| FieldWarning { path, reason };
    let definition: Definition<Map<String, Value>> = read(&of)?;
    Ok(Runner {
        org_id: org.to_string(),
        id: of.id.into(),
        uuid: of.uuid.0,
        description: definition.description,
        disabled: of.disabled,
        runner_configuration: definition.runner_configuration,
        state_storage_configuration: definition.state_storage_configuration,
        created_at: of.created_at,
        updated_at: of.updated_at,
        enabled_roles: enabled_roles(of.enabled_roles, now),
        warnings: warnings.into_iter().map(warning).collect(),
    })
}

fn enabled_roles(of: BTreeMap<RoleName, domain::EnabledRole>, now: Timestamp) -> Vec<EnabledRole> {
    let enabled = of.into_iter().filter(|(_, role)| role.holds(now));
    let render = |(name, role): (RoleName, domain::EnabledRole)| EnabledRole {
        name: name.into(),
        reason: role.reason,
        enabled_by: role.by.0,
        enabled_at: role.at,
        expires_at: role.until,
    };
    enabled.map(render).collect()
}

fn summary(org: &OrgId, of: RunnerRecord) -> Result<RunnerSummary, ApiError> {
    let definition: Definition<ConfigurationSummary> = read(&of)?;
    Ok(RunnerSummary {
        org_id: org.to_string(),
        id: of.id.into(),
        description: definition.description,
        disabled: of.disabled,
        runner_configuration: definition.runner_configuration,
        state_storage_configuration: definition.state_storage_configuration,
        created_at: of.created_at,
        updated_at: of.updated_at,
    })
}
