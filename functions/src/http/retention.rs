//! How long the organization keeps deployments, logs and audit records.

use super::body::Body;
use super::caller::{Admin, Viewer};
use super::error::ApiError;
use super::refusals::{OfAction, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::retention::{Retention, RetentionBody};
use canyon_domain::retention;
use canyon_store::outcome::Deleted;

pub(super) fn routes() -> Routes<App> {
    routes![get, set, delete]
}

/// Read the retention. Without one, Canyon keeps everything.
#[utoipa::path(get, path = "/orgs/{orgId}/retention", tag = "Retention", operation_id = "getRetention",
    responses((status = 200, description = "The retention.", body = Retention), OfRead))]
async fn get(State(app): State<App>, caller: Viewer) -> Result<Json<Retention>, ApiError> {
    match app.retention(&caller).await? {
        Some(found) => Ok(Json(render(&found))),
        None => Err(absent()),
    }
}

/// Set the retention. From then on Canyon removes what is older, and no environment needs. That cannot be undone.
#[utoipa::path(put, path = "/orgs/{orgId}/retention", tag = "Retention", operation_id = "setRetention",
    request_body = RetentionBody,
    responses((status = 200, description = "The retention.", body = Retention), OfWrite))]
async fn set(
    State(app): State<App>,
    caller: Admin,
    body: Body<RetentionBody>,
) -> Result<Json<Retention>, ApiError> {
    let wanted = parsed(body.value);
    if wanted.keeps_all() {
        let reason = "names no days; to keep everything, delete the retention";
        return Err(ApiError::field("", reason));
    }
    let wanted = wanted.faults().into_result(wanted)?;
    Ok(Json(render(&app.set_retention(&caller, wanted).await?)))
}

/// Delete the retention: Canyon keeps everything that is left.
#[utoipa::path(delete, path = "/orgs/{orgId}/retention", tag = "Retention",
    operation_id = "deleteRetention",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(State(app): State<App>, caller: Admin) -> Result<StatusCode, ApiError> {
    match app.delete_retention(&caller).await? {
        Deleted::Yes => Ok(StatusCode::NO_CONTENT),
        Deleted::No => Err(absent()),
    }
}

fn absent() -> ApiError {
    let message = "no retention is set: deployments, logs and audit records are kept for ever";
    ApiError::new(StatusCode::NOT_FOUND, message)
}

pub(super) fn parsed(of: RetentionBody) -> retention::Retention {
    let RetentionBody { deployments_days, logs_days, audit_days } = of;
    retention::Retention { deployments_days, logs_days, audit_days }
}

fn render(of: &retention::RetentionSetting) -> Retention {
    let retention::Retention { deployments_days, logs_days, audit_days } = of.retention;
    Retention { deployments_days, logs_days, audit_days, updated_at: of.updated_at }
}
