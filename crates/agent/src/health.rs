//! Serves `/livez`, `/readyz` and `/metrics` for probes. The server reads only the first line of a request, so it needs
//! no HTTP library.

mod metrics;
pub mod probe;

use crate::status::Status;
use canyon_domain::ids::OrgId;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How long one probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of a request, in bytes.
const MAX_REQUEST: usize = 8 * 1024;
/// The most probes at once; others wait.
const AT_ONCE: usize = 16;

/// The agent's status in each organization that it serves.
#[derive(Debug, Default)]
pub struct Health(Vec<(OrgId, Arc<Status>)>);

impl Health {
    /// Adds an organization.
    pub fn add(&mut self, org: &OrgId, status: Arc<Status>) {
        self.0.push((org.clone(), status));
    }

    /// Whether no loop is stuck.
    fn is_alive(&self) -> bool {
        self.0.iter().all(|(_, status)| status.is_alive())
    }

    /// Whether an organization offers it jobs. One that has not adopted the agent yet must not hold up the others, for
    /// example in a rollout that waits until each new pod is ready.
    fn is_ready(&self) -> bool {
        self.0.iter().any(|(_, status)| status.is_ready())
    }
}

/// Answers probes until the future is dropped.
pub async fn serve(listener: TcpListener, health: Arc<Health>) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let health = health.clone();
                tokio::spawn(async move {
                    // If the probe breaks off, there is nothing to do.
                    let _ = tokio::time::timeout(PROBE_TIMEOUT, answer(stream, &health)).await;
                    drop(permit);
                });
            }
            // For example, the process has too many open files. The pause prevents a busy loop.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a probe");
                tokio::time::sleep(PROBE_TIMEOUT).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, health: &Health) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut parts = request.lines().next().unwrap_or_default().split(' ');
    let method = parts.next().unwrap_or_default();
    let path = parts.next().unwrap_or_default().split('?').next().unwrap_or_default();
    let (code, body) = match (method, path) {
        ("GET" | "HEAD", "/livez") => verdict(health.is_alive(), "alive", "stuck"),
        ("GET" | "HEAD", "/readyz") => {
            verdict(health.is_ready(), "ready", "no session with Canyon")
        }
        ("GET" | "HEAD", "/metrics") => ("200 OK", metrics::text(health)),
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

fn verdict(good: bool, yes: &str, no: &str) -> (&'static str, String) {
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

    /// The status and the body of the answer to a probe.
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
    async fn a_probe_shows_whether_the_agent_is_alive_and_whether_it_is_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (status, waiting) = (Arc::new(Status::default()), Arc::new(Status::default()));
        let mut health = Health::default();
        health.add(&"acme".parse().unwrap(), status.clone());
        health.add(&"beta".parse().unwrap(), waiting);
        let served = tokio::spawn(serve(listener, Arc::new(health)));
        // A silent connection must not block other probes.
        let _silent = TcpStream::connect(address).await.unwrap();
        let expected = |status: &str, body: &str| (status.to_owned(), body.to_owned());
        assert_eq!(probe(address, "GET /livez").await, expected("200 OK", "alive\n"));
        let unready = expected("503 Service Unavailable", "no session with Canyon\n");
        assert_eq!(probe(address, "GET /readyz").await, unready);
        status.answered(Some(1));
        assert_eq!(probe(address, "GET /readyz?verbose").await, expected("200 OK", "ready\n"));
        assert_eq!(probe(address, "HEAD /readyz").await, expected("200 OK", ""));
        let (code, metrics) = probe(address, "GET /metrics").await;
        assert_eq!(code, "200 OK");
        assert!(metrics.contains("\ncanyon_agent_ready{org=\"acme\"} 1\n"), "{metrics}");
        assert_eq!(probe(address, "GET /").await.0, "404 Not Found");
        assert_eq!(probe(address, "POST /livez").await.0, "405 Method Not Allowed");
        served.abort();
    }
}
