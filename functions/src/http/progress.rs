//! A timeout for bodies: a peer that stops sending, or sends too slowly, is disconnected.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The longest pause between two parts of a body.
pub(super) const MAX_SILENCE: Duration = Duration::from_secs(30);
/// The time that any body may take,
pub(super) const START: Duration = Duration::from_mins(1);
/// and the bytes that must arrive in each further second, on average.
pub(super) const BYTES_PER_SECOND: u64 = 4 * 1024;

/// No part of a body arrived in time, or too few bytes.
#[derive(Debug, thiserror::Error)]
#[error("the body arrived too slowly")]
pub(super) struct TooSlow;

/// The request with a body that fails with [`TooSlow`] when it does not progress.
pub(super) async fn watched(request: Request) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    request.map(|body| Body::new(Watched { body, received: 0, begun: Instant::now(), sleep: None }))
}

struct Watched {
    body: Body,
    received: u64,
    begun: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    /// The time by which the next part must arrive.
    fn deadline(&self, now: Instant) -> Instant {
        let earned = Duration::from_secs(self.received / BYTES_PER_SECOND);
        (now + MAX_SILENCE).min(self.begun + START + earned)
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.sleep = None;
            if let Some(Ok(frame)) = &frame {
                self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let deadline = self.deadline(Instant::now());
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        sleep.as_mut().poll(cx).map(|()| Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    /// A body that the test sends part by part.
    struct Parts(mpsc::Receiver<usize>);

    impl HttpBody for Parts {
        type Data = Bytes;
        type Error = axum::BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
            self.0.poll_recv(cx).map(|part| part.map(|size| Ok(Frame::data(vec![0; size].into()))))
        }
    }

    /// Reads a body of `count` parts of `size` bytes with a pause before each. Returns the bytes, or the time of the
    /// failure.
    async fn read(size: usize, pause: Duration, count: usize) -> Result<usize, Duration> {
        let (sender, parts) = mpsc::channel(1);
        tokio::spawn(async move {
            for _ in 0..count {
                tokio::time::sleep(pause).await;
                if sender.send(size).await.is_err() {
                    return;
                }
            }
        });
        let since = Instant::now();
        let request = watched(Request::new(Body::new(Parts(parts)))).await;
        let read = axum::body::to_bytes(request.into_body(), usize::MAX).await;
        read.map(|bytes| bytes.len()).map_err(|_| since.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_hours_if_it_comes_on_and_half_a_minute_if_it_does_not() {
        let second = Duration::from_secs(1);
        assert_eq!(read(8 * 1024, second, 8_192).await, Ok(64 * 1024 * 1024), "on a slow line");
        assert_eq!(read(10, 20 * second, 2).await, Ok(20));
        assert_eq!(read(10, 31 * second, 1).await, Err(30 * second));
        assert_eq!(read(1, 29 * second, 1_000).await, Err(60 * second), "a byte now and then");
        let slow = read(1024, second, 65_536).await.unwrap_err();
        assert!(slow > 75 * second && slow < 90 * second, "{slow:?}");
    }
}
