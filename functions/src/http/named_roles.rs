//! Enabling and disabling named roles of runners.

use super::body::Body;
use super::caller::{Admin, Ids};
use super::error::ApiError;
use super::refusals::{OfAction, OfWrite};
use super::routing::{Routes, routes};
use super::runners::render;
use crate::App;
use crate::app::runners::stored_warnings;
use axum::Json;
use axum::extract::State;
use canyon_api::named_role::RoleEnableBody;
use canyon_api::runner::Runner;
use canyon_domain::enabled_role::MAX_ENABLED_SECONDS;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{OrgId, RunnerId};
use canyon_domain::requested_role::{RoleName, reason_fault};
use canyon_store::runners::RunnerRecord;

/// How long a role is enabled unless the request says so.
const DEFAULT_SECONDS: u32 = 3600;
const MIN_SECONDS: u32 = 60;

pub(super) fn routes() -> Routes<App> {
    routes![enable, disable]
}

/// Enable a disabled role of a runner for at most 8 hours. It disables itself; runs that have it by then go on.
#[utoipa::path(post, path = "/orgs/{orgId}/runners/{runnerId}/named-roles/{roleName}/actions/enable",
    tag = "Runner", operation_id = "enableNamedRole",
    request_body = RoleEnableBody,
    responses((status = 200, description = "The role is enabled.", body = Runner), OfWrite))]
async fn enable(
    State(app): State<App>,
    caller: Admin,
    Ids((_, runner, role)): Ids<(String, RunnerId, RoleName)>,
    body: Body<RoleEnableBody>,
) -> Result<Json<Runner>, ApiError> {
    let RoleEnableBody { reason, expires_in_seconds } = body.value;
    let seconds = expires_in_seconds.unwrap_or(DEFAULT_SECONDS);
    let mut faults = FieldErrors::default();
    if let Some(fault) = reason_fault(&reason) {
        faults.add("reason", fault);
    }
    if !(MIN_SECONDS..=MAX_ENABLED_SECONDS).contains(&seconds) {
        let reason = format!("must be {MIN_SECONDS} to {MAX_ENABLED_SECONDS}: at most 8 hours");
        faults.add("expires_in_seconds", reason);
    }
    faults.into_result(())?;
    let changed = app.enable_role(&caller, &runner, &role, &reason, seconds).await?;
    answer(&app, &caller.org_id, changed)
}

/// Disable an enabled role of a runner before its time. Runs that have it go on.
#[utoipa::path(post, path = "/orgs/{orgId}/runners/{runnerId}/named-roles/{roleName}/actions/disable",
    tag = "Runner", operation_id = "disableNamedRole",
    responses((status = 200, description = "The role is disabled.", body = Runner), OfAction))]
async fn disable(
    State(app): State<App>,
    caller: Admin,
    Ids((_, runner, role)): Ids<(String, RunnerId, RoleName)>,
) -> Result<Json<Runner>, ApiError> {
    let changed = app.disable_role(&caller, &runner, &role).await?;
    answer(&app, &caller.org_id, changed)
}

fn answer(app: &App, org: &OrgId, changed: RunnerRecord) -> Result<Json<Runner>, ApiError> {
    let warnings = stored_warnings(&changed)?;
    Ok(Json(render(org, changed, warnings, app.now())?))
}
