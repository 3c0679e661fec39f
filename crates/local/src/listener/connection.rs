//! One connection: it answers its requests one after the other, and each wait has a time limit.

use super::Limits;
use super::bodies::{AnswerBody, RequestBody};
use super::table::{Phase, Slot, State};
use super::transport::Transport;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt as _;

/// The limits of a connection's waits.
pub(super) type Limited = Limits;

/// The most bytes of the head of a request. API Gateway accepts 10,240 (its quotas); tokens of other issuers may be long.
const MAX_HEAD: usize = 32 * 1024;

/// A connection with its slot.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) slot: Slot,
}

impl Connection {
    /// Answers its requests until it is closed: by its peer, by a time limit, or to free its slot.
    pub(super) async fn serve(
        self,
        router: Router,
        limits: Limits,
        mut closing: watch::Receiver<()>,
    ) {
        let Self { stream, peer, slot } = self;
        let state = slot.state.clone();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            answer(router.clone(), request, peer, state.clone())
        });
        let io = TokioIo::new(Transport::new(stream, state.clone()));
        let connection = http1::Builder::new()
            .max_header_size(MAX_HEAD)
            // The limits of this module apply instead.
            .header_read_timeout(None)
            .serve_connection(io, service);
        let mut connection = pin!(connection);
        let mut is_closing = false;
        loop {
            tokio::select! {
                // An error is the peer's: it closed the connection, or sent an invalid request.
                _ = connection.as_mut() => return,
                () = state.changed() => {}
                () = expired(&state, &limits) => return,
                _ = closing.changed(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
            if state.is_evicted() {
                return;
            }
        }
    }
}

/// Returns when the connection has waited too long for its peer.
async fn expired(state: &State, limits: &Limits) {
    match state.phase().deadline(limits) {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn answer(
    router: Router,
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
    state: Arc<State>,
) -> Result<Response, Infallible> {
    state.set(Phase::Answer);
    let mut request: Request = request.map(|body| Body::new(RequestBody::new(body, state.clone())));
    request.extensions_mut().insert(ConnectInfo(peer));
    let answer = router.oneshot(request).await?;
    Ok(answer.map(|body| Body::new(AnswerBody::new(body, state))))
}
