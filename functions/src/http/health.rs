//! Health of the API, for load balancers and probes.

use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use serde_json::{Value, json};

pub(super) fn routes() -> Routes<App> {
    routes![health]
}

/// Check whether the process serves requests.
#[utoipa::path(get, path = "/health", tag = "WellKnown", security(()),
    responses((status = 200, description = "The process serves requests.", body = Object)))]
async fn health() -> Json<Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}
