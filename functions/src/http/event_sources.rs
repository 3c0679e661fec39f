//! Event sources: the right to deploy by an event on the bus.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::event_sources::EventSourceChange;
use crate::app::narrowing::Narrowing;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::event_source::{EventSource, EventSourceCreateBody, EventSourceUpdateBody};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::event_source::{self, EventSourceId, Scope};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::OrgId;
use std::fmt::Display;
use std::str::FromStr;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create an event source.
#[utoipa::path(post, path = "/orgs/{orgId}/event-sources", tag = "EventSource",
    operation_id = "createEventSource",
    request_body = EventSourceCreateBody,
    responses((status = 201, description = "Created.", body = EventSource), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<EventSourceCreateBody>,
) -> Result<(StatusCode, Json<EventSource>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id = fields::id(&mut faults, "id", &body.id);
    let account = part(&mut faults, "account", &body.account);
    let source = narrowing(&mut faults, "source", body.source.as_deref()).of(None);
    let rule = narrowing(&mut faults, "rule", body.rule.as_deref()).of(None);
    let project = narrowing(&mut faults, "project", body.project.as_deref()).of(None);
    check_role(&mut faults, body.role.as_deref());
    faults.into_result(())?;
    let (Some(id), Some(account)) = (id, account) else { return Err(ApiError::internal()) };
    let scope = Scope { account, source, rule, project };
    let made = app.create_event_source(&caller, id, scope).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

/// A given field, parsed.
fn part<T: FromStr<Err: Display>>(faults: &mut FieldErrors, path: &str, text: &str) -> Option<T> {
    text.parse().map_err(|error: T::Err| faults.add(path, error.to_string())).ok()
}

/// A field that may be omitted; an empty text removes the restriction.
fn narrowing<T: FromStr<Err: Display>>(
    faults: &mut FieldErrors,
    path: &str,
    text: Option<&str>,
) -> Narrowing<T> {
    match text {
        None => Narrowing::Stays,
        Some("") => Narrowing::Any,
        Some(text) => part(faults, path, text).map_or(Narrowing::Stays, Narrowing::To),
    }
}

/// The sender of an event is known only by its account. So it may deploy, and never change rights. It may not read,
/// because an event has no answer.
fn check_role(faults: &mut FieldErrors, role: Option<&str>) {
    if role.is_some_and(|role| role != "deployer") {
        faults.add("role", "must be `deployer`: events can ask for deployments and nothing else");
    }
}

/// List the event sources.
#[utoipa::path(get, path = "/orgs/{orgId}/event-sources", tag = "EventSource",
    operation_id = "listEventSources",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<EventSource>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<EventSource>>, ApiError> {
    let name = "event-sources".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.event_sources(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |source| render(&caller.org_id, source))))
}

/// Read an event source.
#[utoipa::path(get, path = "/orgs/{orgId}/event-sources/{eventSourceId}", tag = "EventSource",
    operation_id = "getEventSource",
    responses((status = 200, description = "The event source.", body = EventSource), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, EventSourceId)>,
) -> Result<Json<EventSource>, ApiError> {
    Ok(Json(render(&caller.org_id, app.event_source(&caller, &id).await?)))
}

/// Change an event source. The change applies from the next event on.
#[utoipa::path(patch, path = "/orgs/{orgId}/event-sources/{eventSourceId}", tag = "EventSource",
    operation_id = "updateEventSource",
    request_body = EventSourceUpdateBody,
    responses((status = 200, description = "Changed.", body = EventSource), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, EventSourceId)>,
    body: Body<EventSourceUpdateBody>,
) -> Result<Json<EventSource>, ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let account = body.account.and_then(|text| part(&mut faults, "account", &text));
    let change = EventSourceChange {
        account,
        source: narrowing(&mut faults, "source", body.source.as_deref()),
        rule: narrowing(&mut faults, "rule", body.rule.as_deref()),
        project: narrowing(&mut faults, "project", body.project.as_deref()),
    };
    check_role(&mut faults, body.role.as_deref());
    faults.into_result(())?;
    let changed = app.update_event_source(&caller, &id, &change).await?;
    Ok(Json(render(&caller.org_id, changed)))
}

/// Delete an event source. Its requests are refused from then on; its earlier deployments continue.
#[utoipa::path(delete, path = "/orgs/{orgId}/event-sources/{eventSourceId}", tag = "EventSource",
    operation_id = "deleteEventSource",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, EventSourceId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_event_source(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(org: &OrgId, of: event_source::EventSource) -> EventSource {
    EventSource {
        org_id: org.to_string(),
        id: of.id.into(),
        uuid: of.uuid,
        account: of.scope.account.into(),
        source: of.scope.source.map(String::from),
        rule: of.scope.rule.map(String::from),
        project: of.scope.project.map(String::from),
        role: of.role,
        created_at: of.created_at,
        updated_at: of.updated_at,
    }
}
