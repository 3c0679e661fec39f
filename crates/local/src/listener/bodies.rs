//! The bodies of a request and of its answer. They record when they end, because a new phase of the connection begins.

use super::table::{Phase, State};
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// The body of a request. While it is transferred, the connection waits for its peer.
pub(super) struct RequestBody<B> {
    body: B,
    state: Arc<State>,
    is_asked: bool,
}

/// The result of polling a body.
type PolledFrame<B> = Result<Frame<<B as HttpBody>::Data>, <B as HttpBody>::Error>;

impl<B: HttpBody> RequestBody<B> {
    pub(super) fn new(body: B, state: Arc<State>) -> Self {
        Self { body, state, is_asked: false }
    }

    fn asked(&mut self, answer: &Poll<Option<PolledFrame<B>>>) {
        let ended = matches!(answer, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream();
        self.is_asked = !ended;
        let came = answer.is_ready();
        self.state.advance(|phase| match phase {
            Phase::Body(_) if ended => Some(Phase::Answer),
            Phase::Body(_) if !came => None,
            Phase::Answer | Phase::Body(_) if !ended => Some(Phase::Body(Instant::now())),
            _ => None,
        });
    }
}

impl<B: HttpBody + Unpin> HttpBody for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let answer = Pin::new(&mut self.body).poll_frame(cx);
        self.asked(&answer);
        answer
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for RequestBody<B> {
    fn drop(&mut self) {
        // The rest of the body is not read.
        if self.is_asked {
            self.state.advance(|phase| matches!(phase, Phase::Body(_)).then_some(Phase::Answer));
        }
    }
}

/// The body of an answer. After it, the connection waits for the next request.
pub(super) struct AnswerBody {
    body: Body,
    state: Arc<State>,
}

impl AnswerBody {
    pub(super) fn new(body: Body, state: Arc<State>) -> Self {
        Self { body, state }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        // The rest of the answer is in buffers. If the peer does not read it, the connection stays blocked.
        self.state.advance(|phase| match phase {
            Phase::Blocked { since, .. } => Some(Phase::Blocked { since, is_whole: true }),
            _ => Some(Phase::Idle(Instant::now())),
        });
    }
}
