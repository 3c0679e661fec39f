//! The JSON body and the query of a request, with the path of whatever is wrong in it.

use super::error::ApiError;
use super::progress::{BYTES_PER_SECOND, SILENCE, TooSlow};
use crate::App;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use bytes::Bytes;
use canyon_api::error::INCOMPLETE;
use serde::de::DeserializeOwned;
use std::error::Error;

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
        let coding = request.headers().get(CONTENT_ENCODING);
        if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send the body as it is, without `Content-Encoding`",
            ));
        }
        let bytes =
            Bytes::from_request(request, app).await.map_err(|rejection| unread(&rejection))?;
        Ok(Self { value: parse(&bytes)?, bytes })
    }
}

fn unread(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let limit = super::MAX_BODY / 1024;
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

/// Why a body did not come to its end: its sender, or the network.
pub(super) fn not_whole(rejection: &BytesRejection) -> ApiError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(rejection);
    while let Some(error) = cause {
        if error.is::<TooSlow>() {
            let message = format!(
                "the body did not come to its end: nothing of it came for {} s, or less than {BYTES_PER_SECOND} bytes \
                 a second after the first minute; send it again",
                SILENCE.as_secs()
            );
            return incomplete(StatusCode::REQUEST_TIMEOUT, message);
        }
        cause = error.source();
    }
    incomplete(StatusCode::BAD_REQUEST, "the body could not be read to its end")
}

/// The refusal of a body that is not whole, or not what any program sends: something on the way may have cut it.
fn incomplete(status: StatusCode, message: impl Into<String>) -> ApiError {
    ApiError::new(status, message).with_detail("code", INCOMPLETE)
}

/// `serde_json` refuses what nests deeper than 128, so a hostile body cannot exhaust the stack.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // serde would read a list into a struct too, field by field.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "the body is a list; send an object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            let (path, reason) = named(&path, reason(&inner));
            return ApiError::field(path, reason);
        }
        incomplete(StatusCode::BAD_REQUEST, format!("the body is not JSON: {inner}"))
    })?;
    json.end().map_err(|_| {
        incomplete(StatusCode::BAD_REQUEST, "the body goes on after its JSON value")
    })?;
    Ok(value)
}

/// The path and reason of a fault. serde gives the path of an object and speaks of the field in
/// words when the field is missing or unknown; the field's own path helps more.
fn named(parent: &str, reason: String) -> (String, String) {
    let parent = parent.trim_matches('.');
    for (words, told) in [("missing field `", "is required"), ("unknown field `", "")] {
        let Some((field, rest)) = reason.strip_prefix(words).and_then(|r| r.split_once('`')) else {
            continue;
        };
        // For an unknown field serde's path may name it already.
        let at_field = parent == field || parent.ends_with(&format!(".{field}"));
        let path = match (parent.is_empty(), at_field) {
            (true, _) => field.to_owned(),
            (false, true) => parent.to_owned(),
            (false, false) => format!("{parent}.{field}"),
        };
        let told =
            if told.is_empty() { format!("is not a known field{rest}") } else { told.into() };
        return (path, told);
    }
    let path = if parent.is_empty() { "body" } else { parent };
    (path.to_owned(), reason)
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
