//! The exchange of another issuer's token for one of Canyon's (RFC 8693), with the form and the errors of RFC 6749.

use super::access::note_organization;
use super::oauth::{Form, NOT_STORED, Refused};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::token_exchange::{Denied, SignInAs};
use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use canyon_api::token_exchange::{
    ACCESS_TOKEN, AccessToken, GRANT_TYPE, ID_TOKEN, JWT, OAuthError, TokenExchangeForm,
};
use secrecy::{ExposeSecret, SecretString};

pub(super) fn routes() -> Routes<App> {
    routes![exchange]
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unknown => Self::new(
                "invalid_grant",
                "the token is not taken: it does not show that its bearer may sign in so. \
                 Who may read Canyon's log finds the reason there",
            ),
            Denied::Known(reason) => Self::new("invalid_grant", reason),
            Denied::TooMany => Self {
                status: StatusCode::TOO_MANY_REQUESTS,
                ..Self::new(
                    "temporarily_unavailable",
                    "too many sign-ins in a short time; use a token until it ends",
                )
            },
            Denied::Store(error) => error.into(),
        }
    }
}

/// Sign in: exchange a token of a trusted issuer for one of Canyon's.
///
/// It needs no token of Canyon. A service account's token is valid for 15 minutes, a person's until an hour after the
/// identity provider signed its token; both end when the service account or the identity provider changes.
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
        (status = 429, description = "Too many sign-ins in a short time.", body = OAuthError),
    ))]
async fn exchange(
    State(app): State<App>,
    Path(org): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let Request { sign_in_as, subject_token } = judge(Form::read(&headers, body)?)?;
    if let Ok(org) = org.parse() {
        note_organization(&org);
    }
    let issued = app.exchange(&org, &sign_in_as, &subject_token).await?;
    let answer = AccessToken {
        access_token: issued.secret.expose_secret().to_owned(),
        issued_token_type: ACCESS_TOKEN.to_owned(),
        token_type: "Bearer".to_owned(),
        expires_in: issued.life.as_secs(),
    };
    Ok((NOT_STORED, Json(answer)).into_response())
}

/// What the form asks for.
struct Request {
    sign_in_as: SignInAs,
    subject_token: SecretString,
}

fn judge(mut form: Form) -> Result<Request, Refused> {
    if form.field("grant_type")? != GRANT_TYPE {
        return Err(Refused::new(
            "unsupported_grant_type",
            format!("the only `grant_type` is `{GRANT_TYPE}`"),
        ));
    }
    if ![JWT, ID_TOKEN].contains(&form.field("subject_token_type")?.as_str()) {
        return Err(Refused::request(format!(
            "the only kinds of `subject_token_type` are `{JWT}` and `{ID_TOKEN}`"
        )));
    }
    let subject_token = form.field("subject_token")?.into();
    let sign_in_as = match (form.optional("service_account"), form.optional("identity_provider")) {
        (Some(id), None) => SignInAs::ServiceAccount(id),
        (None, Some(id)) => SignInAs::PersonOf(id),
        (Some(_), Some(_)) => {
            return Err(Refused::request(
                "`service_account` and `identity_provider` exclude each other",
            ));
        }
        (None, None) => {
            return Err(Refused::request("`service_account` or `identity_provider` is missing"));
        }
    };
    if form.optional("requested_token_type").is_some_and(|kind| kind != ACCESS_TOKEN) {
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
        (
            "scope",
            "invalid_scope",
            "`scope` is not accepted: the service account or the person's groups have the roles",
        ),
        (
            "resource",
            "invalid_target",
            "`resource` is not accepted: the token is for this organization",
        ),
    ] {
        if form.optional(name).is_some() {
            return Err(Refused::new(error, reason));
        }
    }
    Ok(Request { sign_in_as, subject_token })
}
