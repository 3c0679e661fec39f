//! The JSON body and the query of a request, with the path of every fault.

use super::error::ApiError;
use super::progress::{BYTES_PER_SECOND, MAX_SILENCE, TooSlow};
use crate::App;
use crate::json::{self, JsonError};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use bytes::Bytes;
use canyon_api::error::INCOMPLETE;
use serde::de::DeserializeOwned;
use std::error::Error;

/// A JSON body, parsed into `T`, and its bytes.
#[derive(Clone, Debug)]
pub struct Body<T> {
    /// The parsed body.
    pub value: T,
    /// The bytes as they were received, for a digest.
    pub bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if kind.is_some_and(|kind| !kind.to_ascii_lowercase().contains("json")) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send JSON, with `Content-Type: application/json`",
            ));
        }
        let coding = request.headers().get(CONTENT_ENCODING);
        if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send the body as it is, without `Content-Encoding`",
            ));
        }
        let bytes =
            Bytes::from_request(request, app).await.map_err(|rejection| unread(&rejection))?;
        Ok(Self { value: json::read(&bytes)?, bytes })
    }
}

fn unread(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let limit = json::MAX_BYTES / 1024;
        return ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the body has more than this request takes, which for most is {limit} KiB; upload a large module as an \
                 archive"
            ),
        );
    }
    not_whole(rejection)
}

/// The refusal of a body that was not received completely, because of its sender or the network.
pub(super) fn not_whole(rejection: &BytesRejection) -> ApiError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(rejection);
    while let Some(error) = cause {
        if error.is::<TooSlow>() {
            let message = format!(
                "the body was not received completely: no data for {} s, or less than {BYTES_PER_SECOND} bytes \
                 a second after the first minute; send it again",
                MAX_SILENCE.as_secs()
            );
            return incomplete(StatusCode::REQUEST_TIMEOUT, message);
        }
        cause = error.source();
    }
    incomplete(StatusCode::BAD_REQUEST, "the body could not be read to its end")
}

/// The refusal of a body that is incomplete or malformed: the network may have cut it.
fn incomplete(status: StatusCode, message: impl Into<String>) -> ApiError {
    ApiError::new(status, message).with_detail("code", INCOMPLETE)
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Malformed(message) => incomplete(StatusCode::BAD_REQUEST, message),
            JsonError::List => {
                Self::new(StatusCode::BAD_REQUEST, "the body is a list; send an object")
            }
            JsonError::Field(fault) => Self::field(fault.path, fault.reason),
        }
    }
}

/// The query of a request. A fault in it is a 400.
#[derive(Clone, Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiError::field("query", rejection.body_text())),
        }
    }
}
