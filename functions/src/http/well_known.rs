//! What anyone may read: health, and the OIDC discovery document and keys. With a token: the API's
//! own document.

use super::caller::Viewer;
use super::error::ApiError;
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use canyon_api::error::ErrorBody;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(openid_configuration))
        .routes(routes!(jwks))
        .routes(routes!(openapi))
}

/// Whether the process serves requests.
#[utoipa::path(get, path = "/health", tag = "WellKnown", security(()),
    responses((status = 200, description = "It does.", body = Object)))]
async fn health() -> Json<Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// OIDC discovery document.
#[utoipa::path(get, path = "/.well-known/openid-configuration", tag = "WellKnown", security(()),
    responses((status = 200, description = "The document.", body = Object)))]
async fn openid_configuration(State(app): State<App>) -> impl IntoResponse {
    ([(CACHE_CONTROL, "public, max-age=300")], Json(app.issuer.discovery()))
}

/// Public keys of the issuer (JWKS).
#[utoipa::path(get, path = "/.well-known/jwks", tag = "WellKnown", security(()),
    responses((status = 200, description = "The keys.", body = Object)))]
async fn jwks(State(app): State<App>) -> Result<impl IntoResponse, ApiError> {
    let keys = tokio::task::spawn_blocking(move || app.issuer.jwks()).await;
    match keys {
        Ok(Ok(keys)) => Ok(([(CACHE_CONTROL, "public, max-age=300")], Json(keys))),
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "no signing key");
            Err(ApiError::internal())
        }
        Err(_) => Err(ApiError::internal()),
    }
}

/// This API's OpenAPI 3.1 document.
#[utoipa::path(get, path = "/openapi.json", tag = "WellKnown",
    responses(
        (status = 200, description = "The document.", body = Object),
        (status = 401, description = "No good token.", body = ErrorBody),
    ))]
async fn openapi(_: Viewer) -> Json<utoipa::openapi::OpenApi> {
    Json(super::document())
}
