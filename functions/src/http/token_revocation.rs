//! The revocation of tokens that sign-ins issued (RFC 7009).

use super::access::note_organization;
use super::oauth::{Form, NOT_STORED, Refused};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::sign_out::SignOut;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use canyon_api::token_exchange::{OAuthError, TokenRevocationForm};

pub(super) fn routes() -> Routes<App> {
    routes![revoke]
}

/// Sign out: revoke a token that a sign-in issued.
///
/// The token itself is the proof; no other is needed. The answer to a token that is not valid is the same (RFC 7009,
/// section 2.2).
#[utoipa::path(post, path = "/orgs/{orgId}/oauth/revoke", tag = "Sign-in", security(()),
    operation_id = "revokeToken",
    request_body(content = TokenRevocationForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token is not valid any more. Requests with it are refused within 5 seconds."),
        (status = 400, description = "The form is invalid, or the token is one of the organization's list.",
            body = OAuthError),
        (status = 404, description = "The path holds something that is not an id.",
            body = canyon_api::error::ErrorBody),
        (status = 413, description = "The form is too large.", body = OAuthError),
        (status = 415, description = "The body is not a form.", body = OAuthError),
    ))]
async fn revoke(
    State(app): State<App>,
    Path(org): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let token = Form::read(&headers, body)?.field("token")?.into();
    if let Ok(org) = org.parse() {
        note_organization(&org);
    }
    match app.sign_out(&org, &token).await? {
        SignOut::Done => Ok(NOT_STORED.into_response()),
        SignOut::Listed => Err(Refused::new(
            "unsupported_token_type",
            "the token is an API token, which no sign-in issued; an administrator deletes it with: \
             canyon delete token ID",
        )),
    }
}
