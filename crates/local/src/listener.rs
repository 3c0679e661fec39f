//! The listener of `canyon local`: HTTP/1.1 for peers that may be slow, broken or hostile.
//!
//! `axum::serve` waits without a limit for the rest of a request, and for the next one. Here each wait of a connection
//! has a time limit ([`connection`]), and the number of connections is bounded. At the bound, a new connection replaces
//! one that waits for its peer ([`table`]). So neither incomplete requests nor idle connections block other callers.

mod bodies;
mod connection;
pub(crate) mod descriptors;
mod listeners;
mod table;
mod transport;

pub(crate) use listeners::Listeners;

use axum::Router;
use connection::Connection;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use table::{Admission, Table};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most connections at once.
    pub(crate) connections: usize,
    /// How long the head of a request may take from its first byte on.
    pub(crate) head: Duration,
    /// How long a connection may wait for its next request. Clients that keep connections close them after 90 s
    /// (reqwest), so that a request and the close do not cross.
    pub(crate) idle: Duration,
    /// How long the peer may read nothing of an answer.
    pub(crate) stall: Duration,
}

impl Limits {
    /// The limits of a process that may have so many descriptors.
    pub(crate) fn of_descriptors(descriptors: u64) -> Self {
        // The other descriptors are for the database, jobs, and the launcher's calls to platforms.
        let connections = descriptors.saturating_sub(RESERVED).clamp(16, MAX_CONNECTIONS);
        Self {
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            head: Duration::from_secs(20),
            idle: Duration::from_mins(2),
            stall: Duration::from_mins(1),
        }
    }
}

/// Descriptors that are not for callers' connections.
const RESERVED: u64 = 96;
/// The upper bound, because each connection also takes memory.
const MAX_CONNECTIONS: u64 = 4096;
/// The pause after a failed accept, for example without free descriptors. It prevents a busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How many connections are closed when descriptors run out.
const SHED: usize = 8;
/// The shortest time between two log lines about the same event.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The answer to a connection for which there is no slot.
const FULL: &str = r#"{"error":"API-503","message":"Canyon has reached its limit of connections; retry","details":{}}"#;

/// Serves `router` until `closing` changes or its sender is dropped. Then completes the answers in progress.
pub(crate) async fn serve(
    mut listeners: Listeners,
    router: Router,
    limits: Limits,
    mut closing: watch::Receiver<()>,
) {
    let table = Arc::new(Table::new(limits.connections));
    let (mut tasks, mut log) = (JoinSet::new(), RateLimitedLog::default());
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
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
                log.write(|| {
                    tracing::warn!(
                        %error, connections = table.len(), closed = shed,
                        "cannot accept a connection; closing idle ones, and retrying"
                    );
                });
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listeners);
    while tasks.join_next().await.is_some() {}
}

/// The connection with its slot; `None` if it was refused.
fn admit(
    table: &Arc<Table>,
    stream: TcpStream,
    peer: SocketAddr,
    log: &mut RateLimitedLog,
) -> Option<Connection> {
    // Answers are written completely, so a wait for more data would only delay them.
    let _ = stream.set_nodelay(true);
    let (slot, evicted) = match table.admit(peer.ip()) {
        Admission::Free(slot) => (slot, None),
        Admission::Replaced(slot, evicted) => (slot, Some(evicted)),
        Admission::Full => {
            log.write(|| {
                tracing::warn!(
                    connections = table.len(), %peer,
                    "refusing a connection: all others are in use"
                );
            });
            tokio::spawn(refuse(stream));
            return None;
        }
    };
    if let Some(evicted) = evicted {
        log.write(|| {
            tracing::warn!(
                connections = table.len(), %peer, closed = %evicted,
                "at the limit of connections; closing an idle one for each new one"
            );
        });
    }
    Some(Connection { stream, peer, slot })
}

async fn refuse(mut stream: TcpStream) {
    // The answer fits into the buffer of a new connection. If it does not, the time limit below applies.
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{FULL}",
        FULL.len()
    );
    let written = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), written).await;
}

/// Whether the error concerns only the connection that was to be accepted, and not this process (accept(2)).
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Writes a log line at most every [`LOG_INTERVAL`], and counts those that were left out.
#[derive(Default)]
struct RateLimitedLog {
    written: Option<Instant>,
    left_out: u64,
}

impl RateLimitedLog {
    fn write(&mut self, line: impl FnOnce()) {
        if self.written.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            self.left_out += 1;
            return;
        }
        line();
        if self.left_out > 0 {
            tracing::warn!("the same happened {} times since it was last logged", self.left_out);
        }
        (self.written, self.left_out) = (Some(Instant::now()), 0);
    }
}

#[cfg(test)]
#[path = "listener/tests.rs"]
mod tests;
