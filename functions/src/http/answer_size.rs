//! Keeps answers within the 6 MB that Lambda allows for an answer with its envelope.
//!
//! Lambda's answer is JSON. Bytes grow by a third in it, because they are encoded in base64; text becomes a JSON
//! string, in which a line feed takes two bytes and an escape character six. Lists and logs have the same limit on a
//! laptop, so that a request that works there works everywhere. A module cannot be split, so it has the limit on
//! Lambda alone: there the object store serves larger ones.

use super::error::ApiError;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

/// The largest body in Lambda's answer. The rest of the 6 MB is for headers.
const ROOM: usize = 5_900_000;
/// A body of this size fits, whatever it contains.
const SMALL: u64 = ROOM as u64 / 6;

/// The size of `bytes` as base64.
fn as_base64(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// The size of one byte of text in a JSON string.
fn escaped(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// The number of bytes of `text` that fit, in whole characters. Compressed text is sent as base64.
pub(super) fn fitting(text: &str) -> usize {
    let mut taken = 0;
    for (at, byte) in text.bytes().enumerate() {
        taken += escaped(byte);
        if taken > ROOM || as_base64(at + 1) > ROOM {
            return text.floor_char_boundary(at);
        }
    }
    text.len()
}

/// The number of bytes that fit if they are not text.
pub(super) const BYTES: usize = ROOM / 4 * 3;

/// The answer, or a refusal if it is too large for Lambda. Every route limits its answers itself: this covers a route
/// that does not, because Lambda would then fail without a message.
pub(super) async fn bounded(State(on_lambda): State<bool>, response: Response) -> Response {
    if !on_lambda {
        return response;
    }
    let size = response.body().size_hint().exact();
    if size.is_some_and(|size| size <= SMALL) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return ApiError::internal().into_response();
    };
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let fits = match std::str::from_utf8(&bytes) {
        Ok(text) if kind.is_some_and(is_text) => fitting(text) == text.len(),
        _ => bytes.len() <= BYTES,
    };
    if fits {
        return Response::from_parts(parts, Body::from(bytes));
    }
    tracing::error!(bytes = bytes.len(), "an answer is too large for Lambda");
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        format!(
            "the answer has {} bytes, more than can be given at once; ask for less of it",
            bytes.len()
        ),
    )
    .into_response()
}

/// Whether the content is text, which is compressed for callers that accept it.
pub(super) fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/") || content_type.starts_with("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of a text in Lambda's JSON.
    fn in_json(text: &str) -> usize {
        serde_json::to_string(text).unwrap().len() - 2
    }

    #[test]
    fn what_fits_fits_in_json_and_in_base64_and_nothing_shorter_was_possible() {
        for unit in ["a", "\n", "\u{1b}[0m", "\"\\", "ä", "日本", "\u{7f}", "\0"] {
            let text = unit.repeat(6_000_000 / unit.len());
            let fits = fitting(&text);
            assert!(in_json(&text[..fits]) <= ROOM && as_base64(fits) <= ROOM, "{unit:?}");
            let more = &text[..text.ceil_char_boundary(fits + 6)];
            assert!(in_json(more) > ROOM || as_base64(more.len()) > ROOM, "{unit:?}");
        }
        assert_eq!(fitting("whole"), 5);
        assert!(as_base64(BYTES) <= ROOM);
    }

    #[tokio::test]
    async fn an_answer_that_does_not_fit_is_refused_with_a_message() {
        let answer = |kind: &'static str, body: Vec<u8>| ([(CONTENT_TYPE, kind)], body);
        let bounded = async |on_lambda, kind, body| {
            bounded(State(on_lambda), answer(kind, body).into_response()).await.status()
        };
        let status = async |kind, body| bounded(true, kind, body).await;
        assert_eq!(status("application/json", vec![b'a'; 4_400_000]).await, 200);
        assert_eq!(status("application/json", vec![b'"'; 4_400_000]).await, 500);
        assert_eq!(status("application/octet-stream", vec![b'"'; BYTES]).await, 200);
        assert_eq!(status("application/octet-stream", vec![b'"'; BYTES + 1]).await, 500);
        assert_eq!(bounded(false, "application/x-gzip", vec![0; BYTES + 1]).await, 200);
    }
}
