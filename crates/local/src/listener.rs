//! The listener of `canyon local`: HTTP/1.1 for peers that may be slow, broken or hostile.
//!
//! `axum::serve` waits for ever for the rest of a request, and for the next one. Here each connection has a time limit
//! for whatever it waits for ([`connection`]), their number is bounded, and at the bound a new connection takes the
//! place of one that does nothing ([`table`]). So neither half-sent requests nor idle connections keep others out.

mod bodies;
mod connection;
pub(crate) mod descriptors;
mod table;
mod transport;

use axum::Router;
use connection::Connection;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use table::{Admission, Table};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What connections are allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most connections at once.
    pub(crate) connections: usize,
    /// How long the head of a request may take from its first byte on.
    pub(crate) head: Duration,
    /// How long a connection may wait for its next request. Clients that keep connections close them after 90 s
    /// (reqwest), so that a request and the close do not cross.
    pub(crate) idle: Duration,
    /// How long the peer may take nothing of an answer.
    pub(crate) stall: Duration,
}

impl Limits {
    /// Those of a process that may have so many descriptors.
    pub(crate) fn of_descriptors(descriptors: u64) -> Self {
        // The rest is for the database, jobs, and what the launcher asks of platforms.
        let connections = descriptors.saturating_sub(RESERVED).clamp(16, MAX_CONNECTIONS);
        Self {
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            head: Duration::from_secs(20),
            idle: Duration::from_mins(2),
            stall: Duration::from_mins(1),
        }
    }
}

/// Descriptors that are no connections of callers.
const RESERVED: u64 = 96;
/// Each connection takes memory too.
const MAX_CONNECTIONS: u64 = 4096;
/// After a failed accept: out of descriptors, say. Not in a busy loop.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that make room when descriptors run out.
const SHED: usize = 8;
/// Between two log lines about the same.
const LOG_AGAIN: Duration = Duration::from_secs(10);

/// Said to a connection for which there is no place.
const FULL: &str = r#"{"error":"API-503","message":"Canyon answers as many requests as it can; ask again","details":{}}"#;

/// Serves `router` until `closing` changes or its sender is dropped, and then ends what is being answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    mut closing: watch::Receiver<()>,
) {
    let table = Arc::new(Table::new(limits.connections));
    let (mut tasks, mut log) = (JoinSet::new(), RareLog::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.changed() => break,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                let Some(connection) = admit(&table, stream, peer, &mut log) else { continue };
                let (router, closing) = (router.clone(), closing.clone());
                tasks.spawn(connection.serve(router, limits, closing));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                let shed = table.shed(SHED);
                log.say(|| {
                    tracing::warn!(
                        %error, connections = table.len(), closed = shed,
                        "cannot accept a connection; closes those that do nothing, and tries again"
                    );
                });
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// The connection, if it has a place.
fn admit(
    table: &Arc<Table>,
    stream: TcpStream,
    peer: SocketAddr,
    log: &mut RareLog,
) -> Option<Connection> {
    // Answers are written whole, so waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    let (seat, evicted) = match table.admit(peer.ip()) {
        Admission::Free(seat) => (seat, None),
        Admission::InPlaceOf(seat, evicted) => (seat, Some(evicted)),
        Admission::Full => {
            log.say(|| {
                tracing::warn!(
                    connections = table.len(), %peer,
                    "refuses a connection: each of those there are is being answered"
                );
            });
            tokio::spawn(refuse(stream));
            return None;
        }
    };
    if let Some(evicted) = evicted {
        log.say(|| {
            tracing::warn!(
                connections = table.len(), %peer, closed = %evicted,
                "has as many connections as it takes; closes one that does nothing for each new one"
            );
        });
    }
    Some(Connection { stream, peer, seat })
}

async fn refuse(mut stream: TcpStream) {
    // It fits into the buffer of a new connection; what does not is not worth the wait.
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{FULL}",
        FULL.len()
    );
    let said = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), said).await;
}

/// What is wrong with the connection that was to be accepted, and not with this process (accept(2)).
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// A log line at most every [`LOG_AGAIN`], with how many were left out.
#[derive(Default)]
struct RareLog {
    said: Option<Instant>,
    left_out: u64,
}

impl RareLog {
    fn say(&mut self, line: impl FnOnce()) {
        if self.said.is_some_and(|at| at.elapsed() < LOG_AGAIN) {
            self.left_out += 1;
            return;
        }
        line();
        if self.left_out > 0 {
            tracing::warn!("the same happened {} times since it was last logged", self.left_out);
        }
        (self.said, self.left_out) = (Some(Instant::now()), 0);
    }
}

#[cfg(test)]
#[path = "listener/tests.rs"]
mod tests;
