//! The exchange of another issuer's token for one of Canyon's (RFC 8693), with the form and the errors of RFC 6749.

use super::access::note_organization;
use super::error::ApiError;
use super::request_id::RequestId;
use crate::App;
use crate::app::token_exchange::{Denied, LIFE};
use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use canyon_api::token_exchange::{
    ACCESS_TOKEN, AccessToken, GRANT_TYPE, ID_TOKEN, JWT, OAuthError, TokenExchangeForm,
};
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The largest form, in bytes.
const MAX_FORM: usize = 32 * 1024;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(exchange))
}

/// The refusal, in the form of RFC 6749.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    error: &'static str,
    message: String,
}

impl Refused {
    fn request(message: impl Into<String>) -> Self {
        Self::new("invalid_request", message)
    }

    fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error, message: message.into() }
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unknown => Self::new(
                "invalid_grant",
                "the token is not taken: it does not show that its bearer is this service account. \
                 Who may read Canyon's log finds the reason there",
            ),
            Denied::Known(reason) => Self::new("invalid_grant", reason),
            Denied::TooMany => Self {
                status: StatusCode::TOO_MANY_REQUESTS,
                ..Self::new(
                    "temporarily_unavailable",
                    "this service account signs in too often; use a token until it ends",
                )
            },
            Denied::Store(error) => {
                let error = ApiError::from(error);
                Self {
                    status: error.status(),
                    error: "temporarily_unavailable",
                    message: error.message().to_owned(),
                }
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = OAuthError {
            error: self.error.to_owned(),
            error_description: self.message.clone(),
            message: self.message,
            request_id: RequestId::current().unwrap_or_default(),
        };
        let mut response = (self.status, NOT_STORED, Json(body)).into_response();
        // A token is available every fiftieth of a second, and the store within a second.
        let passes = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if passes.contains(&self.status) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The headers that forbid caching (RFC 6749, section 5.1).
const NOT_STORED: [(axum::http::HeaderName, &str); 2] =
    [(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")];

/// Sign in as a service account: exchange a token of an issuer that it trusts for one of Canyon's.
///
/// It needs no token of Canyon. The issued token is valid for 15 minutes, or until the service account changes.
#[utoipa::path(post, path = "/orgs/{orgId}/oauth/token", tag = "ServiceAccount", security(()),
    operation_id = "exchangeToken",
    request_body(content = TokenExchangeForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The token.", body = AccessToken),
        (status = 400, description = "The form is invalid, or the token is not accepted.",
            body = OAuthError),
        (status = 404, description = "The path holds something that is not an id.",
            body = canyon_api::error::ErrorBody),
        (status = 413, description = "The form is too large.", body = OAuthError),
        (status = 415, description = "The body is not a form.", body = OAuthError),
        (status = 429, description = "The service account signs in too often.", body = OAuthError),
    ))]
async fn exchange(
    State(app): State<App>,
    Path(org): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let form = read(&headers, body)?;
    if let Ok(org) = org.parse() {
        note_organization(&org);
    }
    let token = app.exchange(&org, &form.service_account, &form.subject_token).await?;
    let answer = AccessToken {
        access_token: token.expose_secret().to_owned(),
        issued_token_type: ACCESS_TOKEN.to_owned(),
        token_type: "Bearer".to_owned(),
        expires_in: LIFE.as_secs(),
    };
    Ok((NOT_STORED, Json(answer)).into_response())
}

/// The form's relevant fields.
struct Form {
    service_account: String,
    subject_token: SecretString,
}

fn read(headers: &HeaderMap, body: Result<Bytes, BytesRejection>) -> Result<Form, Refused> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
        return Err(Refused {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ..Refused::request(
                "send a form, with `Content-Type: application/x-www-form-urlencoded`",
            )
        });
    }
    let body = body.ok().filter(|body| body.len() <= MAX_FORM).ok_or_else(|| Refused {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        ..Refused::request("the form has more than 32 KiB")
    })?;
    let mut fields = HashMap::new();
    for (name, value) in url::form_urlencoded::parse(&body) {
        // RFC 6749, section 3.2: a parameter may occur once, and an empty one counts as omitted.
        if !value.is_empty() && fields.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(Refused::request("a field occurs twice in the form"));
        }
    }
    judge(&mut fields)
}

fn judge(fields: &mut HashMap<String, String>) -> Result<Form, Refused> {
    let mut field = |name: &str| {
        fields.remove(name).ok_or_else(|| Refused::request(format!("`{name}` is missing")))
    };
    if field("grant_type")? != GRANT_TYPE {
        return Err(Refused::new(
            "unsupported_grant_type",
            format!("the only `grant_type` is `{GRANT_TYPE}`"),
        ));
    }
    if ![JWT, ID_TOKEN].contains(&field("subject_token_type")?.as_str()) {
        return Err(Refused::request(format!(
            "the only kinds of `subject_token_type` are `{JWT}` and `{ID_TOKEN}`"
        )));
    }
    let form = Form {
        subject_token: field("subject_token")?.into(),
        service_account: field("service_account")?,
    };
    if fields.get("requested_token_type").is_some_and(|kind| kind != ACCESS_TOKEN) {
        return Err(Refused::request(format!(
            "the only kind of `requested_token_type` is `{ACCESS_TOKEN}`"
        )));
    }
    for (name, error, reason) in [
        (
            "actor_token",
            "invalid_request",
            "`actor_token` is not accepted: delegation is not supported",
        ),
        ("scope", "invalid_scope", "`scope` is not accepted: the service account has the roles"),
        (
            "resource",
            "invalid_target",
            "`resource` is not accepted: the token is for this organization",
        ),
    ] {
        if fields.contains_key(name) {
            return Err(Refused::new(error, reason));
        }
    }
    Ok(form)
}
