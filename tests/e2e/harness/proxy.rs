//! A proxy that passes every byte on and records the requests.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A recorder in front of a server.
pub(crate) struct Proxy {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Starts it in front of the server at `address`, which may begin to listen later.
    pub(crate) async fn start(address: Arc<Mutex<String>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = seen.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let address = address.lock().unwrap().clone();
                tokio::spawn(pass_on(client, address, lines.clone()));
            }
        });
        Self { url, seen }
    }

    /// The request lines since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn pass_on(client: TcpStream, address: String, seen: Arc<Mutex<Vec<String>>>) {
    let Ok(server) = TcpStream::connect(address.trim_start_matches("http://")).await else {
        return;
    };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let back = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from_client.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        // A request begins in a packet of its own: these clients do not pipeline.
        let line = String::from_utf8_lossy(&buffer[..count]);
        let line = line.lines().next().unwrap_or_default();
        if line.ends_with("HTTP/1.1") {
            seen.lock().unwrap().push(line.trim_end_matches(" HTTP/1.1").to_owned());
        }
        if to_server.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    back.abort();
}
