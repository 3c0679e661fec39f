//! Every answer that is not a success: domain error -> status, code, message.

use super::request_id::RequestId;
use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use canyon_api::error::{ErrorBody, NO_TOKEN};
use canyon_domain::causes::Causes;
use canyon_domain::field_error::FieldErrors;
use canyon_identity::master_keys::MasterKeyError;
use canyon_store::StoreError;
use canyon_store::page::ForeignCursor;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// After what is busy or away may be asked again: the limits of stores and keys are by the second.
const SOON: Duration = Duration::from_secs(1);

/// A refusal, or a failure.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    details: Map<String, Value>,
    /// Nothing is wrong with the request: the same may succeed in a moment.
    passing: bool,
    /// After how many seconds it may, where that is known.
    retry_after: Option<u64>,
}

impl ApiError {
    /// A refusal with `status`; `message` says what happened, to which thing, and what to do next.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let (message, details) = (message.into(), Map::new());
        Self { status, message, details, passing: false, retry_after: None }
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

    /// 429: it may be asked again after `pause`.
    pub fn too_many(message: impl Into<String>, pause: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, message).with_retry_after(pause)
    }

    /// 409: others changed the same thing again and again meanwhile.
    pub fn contended(thing: impl std::fmt::Display) -> Self {
        let conflict = Self::conflict(format!("`{thing}` is being changed by others; try again"))
            .with_detail("code", "contended");
        Self { passing: true, ..conflict }
    }

    /// 409: what the field at `path` names is not there. The published API answers so, not with 400.
    pub fn absent(path: &str, reason: String) -> Self {
        let fields = json!([{ "path": path, "reason": reason }]);
        Self::conflict(reason).with_detail("fields", fields)
    }

    /// 401: no token, or one that is not good. It does not say why: that would help to guess.
    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "this needs a valid token: send `Authorization: Bearer <token>`",
        )
    }

    /// 401: no token, or something else where it should be. Programs that have sent one know that it was lost on the way.
    pub fn without_token() -> Self {
        Self::unauthorized().with_detail("code", NO_TOKEN)
    }

    /// 503: what Canyon needs for it does not answer at the moment.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(SOON)
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

    /// The same with the pause before the next try, in whole seconds (RFC 9110, 10.2.3).
    fn with_retry_after(mut self, pause: Duration) -> Self {
        let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
        self.retry_after = Some(seconds.max(1));
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
            return Self::unavailable(error.to_string());
        }
        // The caller has sent it, in one request or in several.
        if let StoreError::TooLarge { part, .. } = &error {
            return Self::field(part, format!("is too large: {error}"));
        }
        tracing::error!(error = %Causes(&error), "the store failed");
        Self::internal()
    }
}

impl From<MasterKeyError> for ApiError {
    fn from(error: MasterKeyError) -> Self {
        tracing::error!(error = %Causes(&error), "no master key");
        if error.is_retryable {
            return Self::unavailable("the key that seals secrets does not answer; try again");
        }
        Self::internal()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorBody::code_of(self.status.as_u16()),
            message: self.message,
            details: self.details,
            request_id: RequestId::current(),
        };
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_for_a_while_is_told_for_how_many_seconds_and_nobody_else() {
        let told = |error: ApiError| {
            let response = error.into_response();
            response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned())
        };
        for (millis, seconds) in [(0, "1"), (400, "1"), (1_000, "1"), (1_001, "2"), (90_000, "90")]
        {
            let pause = Duration::from_millis(millis);
            let error = ApiError::conflict("it is busy").with_retry_after(pause);
            assert_eq!(told(error).as_deref(), Some(seconds));
        }
        let no_key = |is_retryable| {
            let (reason, source) = ("it is away".to_owned(), "it is away".into());
            ApiError::from(MasterKeyError { reason, is_retryable, source })
        };
        assert_eq!(told(no_key(true)).as_deref(), Some("1"));
        assert_eq!(told(no_key(false)), None);
        assert_eq!(told(ApiError::unauthorized()), None);
    }
}
