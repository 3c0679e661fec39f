//! The OIDC discovery documents and key sets of both issuers. They are public.
//!
//! They need only the issuers. So on AWS a separate function serves them, whose only right is to read the public
//! halves of the keys (`docs/decisions/0045`).

use super::error::ApiError;
use super::routing::{Routes, routes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canyon_domain::causes::Causes;
use canyon_identity::issuer::Issuer;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The issuers whose documents are published. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuers {
    /// The issuer of tokens about runners.
    pub runners: Arc<Issuer>,
    /// The issuer of jobs' tokens.
    pub jobs: Arc<Issuer>,
}

pub(super) fn routes() -> Routes<Issuers> {
    routes![openid_configuration, jwks, job_openid_configuration, job_jwks]
}

/// OIDC discovery document of the issuer that clouds trust for runners.
#[utoipa::path(get, path = "/.well-known/openid-configuration", tag = "WellKnown", security(()),
    responses(
        (status = 200, description = "The document.", body = Object),
        (status = 304, description = "The version in `If-None-Match` is current."),
    ))]
async fn openid_configuration(State(issuers): State<Issuers>, headers: HeaderMap) -> Response {
    cached(&headers, &issuers.runners.discovery())
}

/// Public keys of that issuer (JWKS).
#[utoipa::path(get, path = "/.well-known/jwks", tag = "WellKnown", security(()),
    responses(
        (status = 200, description = "The keys.", body = Object),
        (status = 304, description = "The version in `If-None-Match` is current."),
    ))]
async fn jwks(State(issuers): State<Issuers>, headers: HeaderMap) -> Result<Response, ApiError> {
    keys_of(&issuers.runners, &headers).await
}

/// OIDC discovery document of the issuer that clouds trust for jobs.
#[utoipa::path(get, path = "/jobs/.well-known/openid-configuration", tag = "WellKnown", security(()),
    responses(
        (status = 200, description = "The document.", body = Object),
        (status = 304, description = "The version in `If-None-Match` is current."),
    ))]
async fn job_openid_configuration(State(issuers): State<Issuers>, headers: HeaderMap) -> Response {
    cached(&headers, &issuers.jobs.discovery())
}

/// Public keys of the issuer that clouds trust for jobs (JWKS).
#[utoipa::path(get, path = "/jobs/.well-known/jwks", tag = "WellKnown", security(()),
    responses(
        (status = 200, description = "The keys.", body = Object),
        (status = 304, description = "The version in `If-None-Match` is current."),
    ))]
async fn job_jwks(
    State(issuers): State<Issuers>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    keys_of(&issuers.jobs, &headers).await
}

async fn keys_of(issuer: &Issuer, headers: &HeaderMap) -> Result<Response, ApiError> {
    match issuer.jwks().await {
        Ok(keys) => Ok(cached(headers, &keys)),
        Err(error) => {
            tracing::error!(error = %Causes(&error), "no key set");
            Err(ApiError::internal())
        }
    }
}

/// How long a copy may be used: 5 minutes, and 5 more while a new one is fetched. So a key that is
/// to sign must have been published for 10 minutes, and one that is no longer published is gone
/// from every copy after as many.
const CACHED: &str = "public, max-age=300, stale-while-revalidate=300";

/// The document, or 304 if the caller has it already. Its tag is a weak one: the document may be
/// compressed on its way.
fn cached(headers: &HeaderMap, document: &Value) -> Response {
    let body = document.to_string();
    let tag = format!("W/\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag));
    let caching = [(CACHE_CONTROL, CACHED), (ETAG, tag.as_str())];
    if is_known {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(CONTENT_TYPE, "application/json")], body).into_response()
}
