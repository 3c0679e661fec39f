//! The bytes of a connection. It records when a request begins, and when the peer does not read the answer.

use super::table::{Phase, State};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A stream that records its progress in the connection's state.
pub(super) struct Transport {
    stream: TcpStream,
    state: Arc<State>,
    is_blocked: bool,
}

impl Transport {
    pub(super) fn new(stream: TcpStream, state: Arc<State>) -> Self {
        Self { stream, state, is_blocked: false }
    }

    fn wrote<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() == self.is_blocked {
            return written;
        }
        self.is_blocked = written.is_pending();
        let is_blocked = self.is_blocked;
        self.state.advance(|phase| match phase {
            Phase::Answer if is_blocked => {
                Some(Phase::Blocked { since: Instant::now(), is_whole: false })
            }
            Phase::Idle(since) if is_blocked => Some(Phase::Blocked { since, is_whole: true }),
            Phase::Blocked { is_whole: true, .. } if !is_blocked => {
                Some(Phase::Idle(Instant::now()))
            }
            Phase::Blocked { is_whole: false, .. } if !is_blocked => Some(Phase::Answer),
            _ => None,
        });
        written
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.state.advance(|phase| match phase {
                Phase::Idle(_) => Some(Phase::Head(Instant::now())),
                _ => None,
            });
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
