//! The log of requests: a span around each, with one line at its end.
//!
//! It contains the route and not the path, and never the query: a caller may put a secret there.

use super::request_id::{REQUEST_ID, RequestId, RequestIds};
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use canyon_api::nonce::{ANSWER_NONCE_HEADER, NONCE_HEADER, is_valid};
use canyon_domain::ids::OrgId;
use tokio::time::Instant;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};

/// Handles a request with its id, in its span.
pub(super) async fn log(State(ids): State<RequestIds>, request: Request, next: Next) -> Response {
    let id = RequestId::of(&request, &ids);
    let word = request
        .headers()
        .get(NONCE_HEADER)
        .filter(|word| word.to_str().is_ok_and(is_valid))
        .cloned();
    let mut entry = Entry::new(&id, &request);
    let span = entry.span.clone();
    let mut response = id.clone().scope(next.run(request)).instrument(span).await;
    entry.status = Some(response.status().as_u16());
    if let Some(id) = id.header() {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if let Some(word) = word {
        response.headers_mut().insert(ANSWER_NONCE_HEADER, word);
    }
    response
}

/// Records the organization in the span of this request.
pub(super) fn note_organization(org: &OrgId) {
    Span::current().record("organization", display(org));
}

/// Writes the log line when it is dropped, so that a request which its caller aborted has a line too.
struct Entry {
    span: Span,
    since: Instant,
    status: Option<u16>,
}

impl Entry {
    fn new(id: &RequestId, request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
        // A span at the level of errors is present on every line, whatever the log level is.
        let span = tracing::error_span!(
            "request",
            request_id = %id,
            method = name(request.method()),
            path,
            organization = Empty,
        );
        Self { span, since: Instant::now(), status: None }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let duration_ms = self.since.elapsed().as_secs_f64() * 1_000.0;
        self.span.in_scope(|| {
            if let Some(status) = self.status {
                tracing::info!(status, duration_ms, "answered");
            } else {
                tracing::info!(duration_ms, "the caller aborted the request");
            }
        });
    }
}

/// The method, if it is a known one: a caller may send any text.
fn name(method: &Method) -> &str {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    if known.contains(method) { method.as_str() } else { "-" }
}
