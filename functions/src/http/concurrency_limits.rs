//! Limits on the number of concurrent jobs.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::paging;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::concurrency_limits::HeldLimit;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::concurrency_limit::{ConcurrencyLimit, ConcurrencyLimitBody};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::concurrency::{LimitScope, MAX_LIMIT};
use canyon_store::outcome::Deleted;

pub(super) fn routes() -> Routes<App> {
    routes![list, get, set, delete]
}

/// List the limits, with the holders of their slots.
#[utoipa::path(get, path = "/orgs/{orgId}/concurrency-limits", tag = "ConcurrencyLimit",
    operation_id = "listConcurrencyLimits",
    params(PageQuery),
    responses(
        (status = 200, description = "A page of the list.", body = Page<ConcurrencyLimit>),
        OfList,
    ))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<ConcurrencyLimit>>, ApiError> {
    let name = "concurrency-limits".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.limits(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, render)))
}

/// Read a limit, with the holders of its slots.
#[utoipa::path(get, path = "/orgs/{orgId}/concurrency-limits/{scope}", tag = "ConcurrencyLimit",
    operation_id = "getConcurrencyLimit",
    responses((status = 200, description = "The limit.", body = ConcurrencyLimit), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, scope)): Ids<(String, LimitScope)>,
) -> Result<Json<ConcurrencyLimit>, ApiError> {
    Ok(Json(render(app.limit(&caller, &scope).await?)))
}

/// Set a limit. Running jobs continue; a job that was launched before the limit existed holds no slot.
#[utoipa::path(put, path = "/orgs/{orgId}/concurrency-limits/{scope}", tag = "ConcurrencyLimit",
    operation_id = "setConcurrencyLimit",
    request_body = ConcurrencyLimitBody,
    responses((status = 200, description = "The limit.", body = ConcurrencyLimit), OfWrite))]
async fn set(
    State(app): State<App>,
    caller: Admin,
    Ids((_, scope)): Ids<(String, LimitScope)>,
    body: Body<ConcurrencyLimitBody>,
) -> Result<Json<ConcurrencyLimit>, ApiError> {
    let max_jobs = body.value.max_jobs;
    if !(1..=MAX_LIMIT).contains(&max_jobs) {
        let reason = format!(
            "is from 1 to {MAX_LIMIT}; to launch nothing at all, disable the runner instead"
        );
        return Err(ApiError::field("max_jobs", reason));
    }
    let limit = app.set_limit(&caller, scope, max_jobs).await?;
    Ok(Json(render(app.held(&caller, limit).await?)))
}

/// Delete a limit.
#[utoipa::path(delete, path = "/orgs/{orgId}/concurrency-limits/{scope}",
    tag = "ConcurrencyLimit", operation_id = "deleteConcurrencyLimit",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, scope)): Ids<(String, LimitScope)>,
) -> Result<StatusCode, ApiError> {
    match app.delete_limit(&caller, &scope).await? {
        Deleted::Yes => Ok(StatusCode::NO_CONTENT),
        Deleted::No => Err(ApiError::not_found("concurrency limit", &scope)),
    }
}

fn render(HeldLimit { limit, held_by }: HeldLimit) -> ConcurrencyLimit {
    ConcurrencyLimit {
        scope: limit.scope.to_string(),
        max_jobs: limit.max_jobs,
        held_by: held_by.into_iter().map(|deployment| deployment.0).collect(),
        updated_at: limit.updated_at,
    }
}
