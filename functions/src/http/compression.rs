//! Compresses answers with gzip, for callers that accept it.

use super::answer_size::is_text;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// The smallest answer that is compressed, in bytes.
const WORTH_IT: u64 = 1024;

/// Compresses text. Archives and encrypted logs would only grow.
pub(super) fn layer() -> CompressionLayer<impl Predicate> {
    let text = |_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions| {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        kind.is_some_and(is_text)
    };
    CompressionLayer::new().compress_when(SizeAbove::new(WORTH_IT).and(text))
}
