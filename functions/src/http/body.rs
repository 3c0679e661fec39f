//! The JSON body and the query of a request, with the path of whatever is wrong in it.

use super::error::ApiError;
use crate::App;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;

/// A JSON body that was read into `T`, and its bytes.
#[derive(Clone, Debug)]
pub struct Body<T> {
    /// What it says.
    pub value: T,
    /// As it came, for a digest.
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
        let bytes =
            Bytes::from_request(request, app).await.map_err(|rejection| too_large(&rejection))?;
        Ok(Self { value: parse(&bytes)?, bytes })
    }
}

fn too_large(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let limit = super::MAX_BODY / 1024;
        return ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {limit} KiB; upload a large module as an archive"),
        );
    }
    ApiError::new(StatusCode::BAD_REQUEST, "the body could not be read to its end")
}

/// `serde_json` refuses what nests deeper than 128, so a hostile body cannot exhaust the stack.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            return ApiError::field(path, reason(&inner));
        }
        ApiError::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {inner}"))
    })?;
    json.end().map_err(|_| {
        ApiError::new(StatusCode::BAD_REQUEST, "the body goes on after its JSON value")
    })?;
    Ok(value)
}

/// serde's words, without its position: the path says where. They may repeat a long value.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words);
    text.chars().take(300).collect::<String>().escape_debug().to_string().replace("\\'", "'")
}

/// The query of a request; what is wrong in it is a 400.
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
