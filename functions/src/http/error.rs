//! Every answer that is not a success: domain error -> status, code, message.

use super::request_id::RequestId;
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::response::{IntoResponse, Response};
use canyon_api::error::ErrorBody;
use canyon_domain::causes::Causes;
use canyon_domain::field_error::FieldErrors;
use canyon_identity::master_keys::MasterKeyError;
use canyon_store::StoreError;
use canyon_store::page::ForeignCursor;
use serde_json::{Map, Value, json};

/// A refusal, or a failure.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    details: Map<String, Value>,
    /// Nothing is wrong with the request: the same may succeed in a moment.
    passing: bool,
}

impl ApiError {
    /// A refusal with `status`; `message` says what happened, to which thing, and what to do next.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), details: Map::new(), passing: false }
    }

    /// 400: one field of the request is at fault.
    pub fn field(path: impl Into<String>, reason: impl Into<String>) -> Self {
        let mut errors = FieldErrors::default();
        errors.add(path, reason);
        errors.into()
    }

    /// 404: it is not there, or not the caller's. Both look the same, so that nobody learns what
    /// others have.
    pub fn not_found(kind: &str, id: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {kind} `{id}`"))
    }

    /// 404: part of the path cannot be the id of anything.
    pub fn not_an_id() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "the path holds something that is not an id, so it names nothing",
        )
    }

    /// 409: it stands against what is there.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// 409: others changed the same thing again and again meanwhile.
    pub fn contended(thing: impl std::fmt::Display) -> Self {
        let conflict = Self::conflict(format!("`{thing}` is being changed by others; try again"))
            .with_detail("code", "contended");
        Self { passing: true, ..conflict }
    }

    /// 401: no token, or one that is not good. It does not say why: that would help to guess.
    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "this needs a valid token: send `Authorization: Bearer <token>`",
        )
    }

    /// 500, without what happened: that is in the log.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "something went wrong in Canyon; it is in the log",
        )
    }

    /// The same with a member for programs.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Its status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether the same request may succeed later: Canyon failed, or others were in the way.
    pub fn is_transient(&self) -> bool {
        self.passing || self.status.is_server_error()
    }

    /// Its message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The faulty fields, if it is these.
    pub fn fields(&self) -> FieldErrors {
        let mut fields = FieldErrors::default();
        for field in self.details.get("fields").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| field[name].as_str().unwrap_or_default();
            fields.add(text("path"), text("reason"));
        }
        fields
    }
}

impl From<FieldErrors> for ApiError {
    fn from(errors: FieldErrors) -> Self {
        let fields: Vec<Value> =
            errors.iter().map(|e| json!({"path": e.path, "reason": e.reason})).collect();
        Self::new(StatusCode::BAD_REQUEST, errors.to_string()).with_detail("fields", fields)
    }
}

impl From<ForeignCursor> for ApiError {
    fn from(error: ForeignCursor) -> Self {
        Self::field("page", error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if error.is_retryable() {
            tracing::warn!(error = %Causes(&error), "the store is not available");
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
        }
        tracing::error!(error = %Causes(&error), "the store failed");
        Self::internal()
    }
}

impl From<MasterKeyError> for ApiError {
    fn from(error: MasterKeyError) -> Self {
        tracing::error!(error = %Causes(&error), "no master key");
        if error.is_retryable {
            let message = "the key that seals secrets does not answer; try again";
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, message);
        }
        Self::internal()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: format!("API-{}", self.status.as_u16()),
            message: self.message,
            details: self.details,
            request_id: RequestId::current(),
        };
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
