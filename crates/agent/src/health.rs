//! `/livez`, `/readyz` and `/metrics`, for probes. A handful of lines of HTTP suffices: the path is all that
//! is read of a request.

pub mod listen;
pub mod probe;

use crate::status::Status;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How long one probe may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that is read of a request, in bytes.
const MAX_REQUEST: usize = 8 * 1024;
/// Probes at once; others wait.
const AT_ONCE: usize = 16;

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, status: Arc<Status>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = status.clone();
                tokio::spawn(async move {
                    // A probe that goes away is no matter of ours.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &status)).await;
                    drop(place);
                });
            }
            // Out of descriptors, say: not in a busy loop.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a probe");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, status: &Status) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default().split('?').next().unwrap_or_default();
    let (code, body) = match (method, path) {
        ("GET" | "HEAD", "/livez") => said(status.is_alive(), "alive", "stuck"),
        ("GET" | "HEAD", "/readyz") => said(status.is_ready(), "ready", "no session with Canyon"),
        ("GET" | "HEAD", "/metrics") => ("200 OK", status.metrics()),
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "there are /livez, /readyz and /metrics\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

fn said(good: bool, yes: &str, no: &str) -> (&'static str, String) {
    if good {
        ("200 OK", format!("{yes}\n"))
    } else {
        ("503 Service Unavailable", format!("{no}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// The status and the body that a probe is answered with.
    async fn probe(address: SocketAddr, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        assert!(request.starts_with("HEAD") || length == body.len().to_string(), "{answer}");
        let status = head.lines().next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
        (status.to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn probes_are_told_whether_it_lives_and_whether_it_would_get_work() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let status = Arc::new(Status::default());
        let served = tokio::spawn(serve(listener, status.clone()));
        // One that says nothing holds up no other.
        let _silent = TcpStream::connect(address).await.unwrap();
        let said = |status: &str, body: &str| (status.to_owned(), body.to_owned());
        assert_eq!(probe(address, "GET /livez").await, said("200 OK", "alive\n"));
        let unready = said("503 Service Unavailable", "no session with Canyon\n");
        assert_eq!(probe(address, "GET /readyz").await, unready);
        status.heard(Some(1));
        assert_eq!(probe(address, "GET /readyz?verbose").await, said("200 OK", "ready\n"));
        assert_eq!(probe(address, "HEAD /readyz").await, said("200 OK", ""));
        let (code, metrics) = probe(address, "GET /metrics").await;
        assert_eq!(code, "200 OK");
        assert!(metrics.contains("\ncanyon_agent_ready 1\n"), "{metrics}");
        assert_eq!(probe(address, "GET /").await.0, "404 Not Found");
        assert_eq!(probe(address, "POST /livez").await.0, "405 Method Not Allowed");
        served.abort();
    }
}
