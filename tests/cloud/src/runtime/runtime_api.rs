//! The runtime API: from it one process fetches its events, and to it the process sends its
//! answers.
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use super::invocation::SYNCHRONOUS_LIMIT;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Larger bodies are not read to their end.
const READ_LIMIT: usize = 64 * 1024 * 1024;

/// A call of the process.
#[derive(Debug)]
pub(super) enum Call {
    /// It asks for an event.
    Next,
    /// It answers an event.
    Response(Answer),
    /// It reports a failure.
    Error(Answer),
    /// It reports that it cannot start.
    InitError { body: Bytes, error_type: Option<String> },
}

/// The end of an invocation, as the process reports it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request_id: String,
    /// `None` if it is larger than Lambda accepts.
    pub(super) body: Option<Bytes>,
    pub(super) error_type: Option<String>,
    /// Whether Lambda accepts it. If this is dropped, the process gets a refusal.
    pub(super) taken: oneshot::Sender<StatusCode>,
}

/// An event for the process.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) request_id: String,
    pub(super) deadline_ms: u128,
    pub(super) function_arn: String,
    pub(super) trace_id: String,
    pub(super) payload: Bytes,
}

/// The server of one process. Dropping it channels the server.
pub(super) struct RuntimeApi {
    pub(super) address: String,
    pub(super) calls: mpsc::UnboundedReceiver<Call>,
    pub(super) deliveries: mpsc::UnboundedSender<Delivery>,
    _server: DropGuard,
}

struct Channels {
    calls: mpsc::UnboundedSender<Call>,
    deliveries: Mutex<mpsc::UnboundedReceiver<Delivery>>,
}

impl RuntimeApi {
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (to_us, calls) = mpsc::unbounded_channel();
        let (deliveries, from_us) = mpsc::unbounded_channel();
        let channels = Channels { calls: to_us, deliveries: Mutex::new(from_us) };
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(init_error))
            .with_state(Arc::new(channels));
        let over = CancellationToken::new();
        let ended = over.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                _ = axum::serve(listener, router) => {}
                () = ended => {}
            }
        });
        Ok(Self { address, calls, deliveries, _server: over.drop_guard() })
    }
}

async fn next(State(channels): State<Arc<Channels>>) -> Response {
    if channels.calls.send(Call::Next).is_err() {
        return refused(StatusCode::GONE, "the execution environment is gone");
    }
    // "Do not set a timeout on the GET request as the response may be delayed."
    let Some(delivery) = channels.deliveries.lock().await.recv().await else {
        return refused(StatusCode::GONE, "the execution environment is gone");
    };
    Response::builder()
        .header("Content-Type", "application/json")
        .header("Lambda-Runtime-Aws-Request-Id", delivery.request_id)
        .header("Lambda-Runtime-Deadline-Ms", delivery.deadline_ms.to_string())
        .header("Lambda-Runtime-Invoked-Function-Arn", delivery.function_arn)
        .header("Lambda-Runtime-Trace-Id", delivery.trace_id)
        .body(Body::from(delivery.payload))
        .unwrap_or_default()
}

async fn response(
    State(channels): State<Arc<Channels>>,
    Path(request_id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answer(&channels, Call::Response, request_id, &headers, body).await
}

async fn error(
    State(channels): State<Arc<Channels>>,
    Path(request_id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answer(&channels, Call::Error, request_id, &headers, body).await
}

async fn answer(
    channels: &Channels,
    call: fn(Answer) -> Call,
    request_id: String,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let Ok(body) = to_bytes(body, READ_LIMIT).await else {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the body did not arrive");
    };
    let body = (body.len() <= SYNCHRONOUS_LIMIT).then_some(body);
    let (taken, verdict) = oneshot::channel();
    let error_type = error_type(headers);
    let _ = channels.calls.send(call(Answer { request_id, body, error_type, taken }));
    match verdict.await {
        Ok(StatusCode::ACCEPTED) => accepted(),
        Ok(StatusCode::PAYLOAD_TOO_LARGE) => {
            refused(StatusCode::PAYLOAD_TOO_LARGE, "Exceeded maximum allowed payload size")
        }
        Ok(_) | Err(_) => refused(StatusCode::BAD_REQUEST, "Invalid request ID"),
    }
}

async fn init_error(
    State(channels): State<Arc<Channels>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let body = to_bytes(body, READ_LIMIT).await.unwrap_or_default();
    let _ = channels.calls.send(Call::InitError { body, error_type: error_type(&headers) });
    accepted()
}

fn error_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("Lambda-Runtime-Function-Error-Type")?;
    value.to_str().ok().map(str::to_owned)
}

fn accepted() -> Response {
    json_response(StatusCode::ACCEPTED, &json!({ "status": "OK" }))
}

fn refused(status: StatusCode, message: &str) -> Response {
    let error_type = status.canonical_reason().unwrap_or_default();
    json_response(status, &json!({ "errorMessage": message, "errorType": error_type }))
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    Response::builder()
        .status(status)
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap_or_default()
}
