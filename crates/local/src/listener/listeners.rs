//! The sockets on which the API is served.

use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The listener of the API, and one for containers after a job has needed it.
pub(crate) struct Listeners {
    first: TcpListener,
    for_containers: Option<TcpListener>,
    added: mpsc::Receiver<TcpListener>,
}

impl Listeners {
    /// `added` delivers the listener for containers; a later one replaces it.
    pub(crate) fn new(first: TcpListener, added: mpsc::Receiver<TcpListener>) -> Self {
        Self { first, for_containers: None, added }
    }

    /// The next connection. May be cancelled without loss.
    pub(super) async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            tokio::select! {
                accepted = self.first.accept() => return accepted,
                accepted = accept(self.for_containers.as_ref()) => return accepted,
                Some(listener) = self.added.recv() => self.for_containers = Some(listener),
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
