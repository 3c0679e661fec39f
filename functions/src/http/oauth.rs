//! Forms and refusals of OAuth's endpoints (RFC 6749).

use super::error::ApiError;
use super::request_id::RequestId;
use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use canyon_api::token_exchange::OAuthError;
use canyon_store::StoreError;
use std::collections::HashMap;

/// The largest form, in bytes.
const MAX_FORM: usize = 32 * 1024;

/// The refusal, in the form of RFC 6749.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::new("invalid_request", message)
    }

    pub(super) fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error, message: message.into() }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let error = ApiError::from(error);
        Self {
            status: error.status(),
            error: "temporarily_unavailable",
            message: error.message().to_owned(),
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
pub(super) const NOT_STORED: [(axum::http::HeaderName, &str); 2] =
    [(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")];

/// The fields of a form.
pub(super) struct Form(HashMap<String, String>);

impl Form {
    /// Takes a field that is required.
    pub(super) fn field(&mut self, name: &str) -> Result<String, Refused> {
        self.optional(name).ok_or_else(|| Refused::request(format!("`{name}` is missing")))
    }

    /// Takes a field.
    pub(super) fn optional(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Parses the body of a request.
    pub(super) fn read(
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<Self, Refused> {
        let kind =
            headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
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
        ..Refused::request("the form has more than 32 KiB; have the issuer leave out claims that Canyon does not need, \
             such as the other groups of the person")
    })?;
        let mut fields = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(&body) {
            // RFC 6749, section 3.2: a parameter may occur once, and an empty one counts as omitted.
            if !value.is_empty() && fields.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(Refused::request("a field occurs twice in the form"));
            }
        }
        Ok(Self(fields))
    }
}
