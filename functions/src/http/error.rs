//! Renders a use case's error as status, code and message.

use super::request_id::RequestId;
use crate::app::error::{AppError, ErrorKind};
use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use canyon_api::error::{ErrorBody, NO_TOKEN};
use canyon_domain::field_error::FieldErrors;
use canyon_store::StoreError;
use canyon_store::page::InvalidCursor;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A refusal or a failure, as an HTTP answer.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    details: Map<String, Value>,
    /// The pause before a retry, if it is known.
    retry_after: Option<Duration>,
}

impl ApiError {
    /// A refusal with `status`; `message` says what happened, to which thing, and what to do next.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), details: Map::new(), retry_after: None }
    }

    /// 400: the field at `path` of the request is at fault.
    pub fn field(path: impl Into<String>, reason: impl Into<String>) -> Self {
        AppError::invalid(path, reason).into()
    }

    /// 404: it does not exist, or the caller may not see it.
    pub fn not_found(kind: &str, id: impl std::fmt::Display) -> Self {
        AppError::not_found(kind, id).into()
    }

    /// 404: part of the path cannot be the id of anything.
    pub fn not_an_id() -> Self {
        Self::new(StatusCode::NOT_FOUND, "the path names nothing: a part of it is no id")
    }

    /// 401: the token is missing or invalid.
    pub fn unauthorized() -> Self {
        AppError::unauthorized().into()
    }

    /// 401: the token is missing, or the header contains something else. A client that sent a token learns that it
    /// was lost on the way.
    pub fn without_token() -> Self {
        Self::unauthorized().with_detail("code", NO_TOKEN)
    }

    /// 500, without the cause: the log has it.
    pub fn internal() -> Self {
        AppError::internal().into()
    }

    /// Adds a machine-readable member.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<AppError> for ApiError {
    fn from(error: AppError) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict | ErrorKind::Contended => StatusCode::CONFLICT,
            ErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut details = error.details().clone();
        if !error.fields().is_empty() {
            details.insert("fields".to_owned(), json!(error.fields()));
        }
        Self {
            status,
            message: error.message().to_owned(),
            details,
            retry_after: error.retry_after(),
        }
    }
}

impl From<FieldErrors> for ApiError {
    fn from(errors: FieldErrors) -> Self {
        AppError::from(errors).into()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        AppError::from(error).into()
    }
}

impl From<InvalidCursor> for ApiError {
    fn from(error: InvalidCursor) -> Self {
        AppError::from(error).into()
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
        if let Some(pause) = self.retry_after {
            // In whole seconds, rounded up (RFC 9110, 10.2.3).
            let seconds = (pause.as_secs() + u64::from(pause.subsec_nanos() > 0)).max(1);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_identity::master_keys::MasterKeyError;

    #[test]
    fn a_caller_that_may_retry_learns_after_how_many_seconds_and_no_other_does() {
        let retry_after = |error: AppError| {
            let response = ApiError::from(error).into_response();
            response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned())
        };
        for (millis, seconds) in [(0, "1"), (400, "1"), (1_000, "1"), (1_001, "2"), (90_000, "90")]
        {
            let pause = Duration::from_millis(millis);
            let error = AppError::too_many("slower", pause);
            assert_eq!(retry_after(error).as_deref(), Some(seconds));
        }
        let no_key = |is_retryable| {
            let (reason, source) = ("it is away".to_owned(), "it is away".into());
            AppError::from(MasterKeyError { reason, is_retryable, source })
        };
        assert_eq!(retry_after(no_key(true)).as_deref(), Some("1"));
        assert_eq!(retry_after(no_key(false)), None);
        assert_eq!(retry_after(AppError::unauthorized()), None);
    }
}
