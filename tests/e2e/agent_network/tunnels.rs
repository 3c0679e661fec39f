//! A forward proxy as companies run it: it opens tunnels (RFC 9110, section 9.3.6), and records the requests for
//! them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How long a tunnel may stay open: longer than any test.
const LONGEST: Duration = Duration::from_mins(5);
/// The limit of a request's head, in bytes.
const MAX_REQUEST: usize = 8 * 1024;
const OPEN: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
const REFUSED: &[u8] =
    b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A running proxy. Dropping it ends the proxy.
pub(super) struct Proxy {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
    serves: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serves.abort();
    }
}

impl Proxy {
    /// Starts a proxy that resolves every name to `to`.
    pub(super) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = asked.clone();
        let serves = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let tunnel = tunnel(client, to, written.clone());
                tokio::spawn(tokio::time::timeout(LONGEST, tunnel));
            }
        });
        Self { url, asked, serves }
    }

    /// The first lines of all requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn tunnel(
    mut client: TcpStream,
    to: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < MAX_REQUEST {
        if client.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let line = request.lines().next().unwrap_or_default();
    asked.lock().unwrap().push(line.to_owned());
    if !line.starts_with("CONNECT ") {
        return client.write_all(REFUSED).await;
    }
    let mut server = TcpStream::connect(to).await?;
    client.write_all(OPEN).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}
