//! Where the API runs on Lambda, no answer is larger than Lambda can give: 6 MB, with everything
//! around the body.
//!
//! Lambda's answer is JSON. Bytes become a third more in it, since they are written in base64; text
//! becomes a JSON string, in which a line feed takes two bytes and an escape character six. Lists and
//! logs are cut to the same bound on a laptop, so that what works there works everywhere; what has to
//! come in one piece, a module, has the bound on Lambda alone, where the object store gives what is
//! larger.

use super::error::ApiError;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

/// The most that a body may take in Lambda's answer. The rest of the 6 MB is for headers.
const ROOM: usize = 5_900_000;
/// A body this short fits whatever is in it.
const SMALL: u64 = ROOM as u64 / 6;

/// What `bytes` take as base64.
fn as_base64(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// What one byte of a text takes in a JSON string.
fn escaped(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// How many bytes of `text` fit, in whole characters. Compressed for its caller, it is base64.
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

/// How many bytes fit if they are not text.
pub(super) const BYTES: usize = ROOM / 4 * 3;

/// The answer, or a refusal if it is to go through Lambda and does not fit. Every route keeps its
/// answers small itself: this is for the case that one does not, which Lambda would answer without a
/// word.
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

/// What is answered as text, and shrinks when it is compressed.
pub(super) fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/") || content_type.starts_with("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text takes in the JSON that Lambda is given.
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
    async fn an_answer_that_does_not_fit_is_refused_in_words() {
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
