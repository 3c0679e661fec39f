//! Learns which package OpenTofu has fetched for a tag.
//!
//! OpenTofu prints no digest, but exports it in its traces (<https://opentofu.org/docs/internals/tracing/>): the span that
//! resolves the tag has the attribute `oci.manifest.digest`. So the runner receives the traces of `tofu get` (OTLP over
//! HTTP) on an address of this machine. Another resolution by the runner could find another package, and would need its own
//! way to the registry's credentials.

use canyon_domain::commit::Commit;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ATTRIBUTE: &[u8] = b"oci.manifest.digest";
const ALGORITHM: &[u8] = b"sha256:";
/// How far behind the attribute's name its value begins: between them are the tags and lengths of protocol buffers.
const GAP: usize = 16;
/// The largest request, in bytes. That of a fetch with many child modules has some hundred kilobytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Receives traces.
pub(super) struct DigestReceiver {
    listener: TcpListener,
    /// `http://127.0.0.1:PORT/SECRET`: another process of this machine does not know it.
    endpoint: String,
    path: String,
}

/// Whether the variable decides about traces.
pub(super) fn is_of_traces(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name.starts_with("OTEL_") || matches!(name, "TRACEPARENT" | "TRACESTATE")
    })
}

impl DigestReceiver {
    /// `None` if this machine has no address or no randomness for it: then the digest stays unknown.
    pub(super) async fn listen() -> Option<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.ok()?;
        let port = listener.local_addr().ok()?.port();
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).ok()?;
        let secret = hex::encode(secret);
        let endpoint = format!("http://127.0.0.1:{port}/{secret}");
        Some(Self { listener, endpoint, path: format!("/{secret}/v1/traces") })
    }

    /// The variables by which OpenTofu sends its traces here.
    pub(super) fn variables(&self) -> [(OsString, OsString); 3] {
        [
            ("OTEL_TRACES_EXPORTER".into(), "otlp".into()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL".into(), "http/protobuf".into()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT".into(), self.endpoint.clone().into()),
        ]
    }

    /// Receives while `getting` runs. Returns its result, and the first digest: child modules are resolved later.
    pub(super) async fn during<T>(self, getting: impl Future<Output = T>) -> (T, Option<Commit>) {
        let found = RefCell::new(None);
        let receiving = async {
            while let Ok((stream, _)) = self.listener.accept().await {
                // One at a time: OpenTofu has one connection, and waits for each answer.
                let digest = receive(stream, &self.path).await.ok().flatten();
                let mut found = found.borrow_mut();
                *found = found.take().or(digest);
            }
            std::future::pending::<()>().await;
        };
        let result = tokio::select! {
            result = getting => result,
            () = receiving => unreachable!("it never ends"),
        };
        (result, found.into_inner())
    }
}

/// Answers one request, and closes the connection.
async fn receive(mut stream: TcpStream, path: &str) -> io::Result<Option<Commit>> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > MAX_BYTES {
            return Ok(None);
        }
        if let Some(end) = position(&bytes, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            break (end + 4, content_length(&head, path));
        }
    };
    let Some(length) = length.filter(|length| *length <= MAX_BYTES) else { return Ok(None) };
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).await?;
    Ok(digest(&bytes[head..]))
}

/// The length of the body, if the request is for `path`.
fn content_length(head: &str, path: &str) -> Option<usize> {
    let mut lines = head.split("\r\n");
    let is_ours = lines.next()?.split(' ').nth(1) == Some(path);
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    length.filter(|_| is_ours)
}

/// The first value of the attribute.
fn digest(traces: &[u8]) -> Option<Commit> {
    let after = &traces[position(traces, ATTRIBUTE)? + ATTRIBUTE.len()..];
    let begin = position(&after[..after.len().min(GAP)], ALGORITHM)? + ALGORITHM.len();
    let digits = after.get(begin..begin + 64)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_digest_in_traces_is_found() {
        let of = |digits: &str| {
            let value = format!("sha256:{digits}");
            [b"\n\x13oci.manifest.digest\x12I\nG", value.as_bytes(), b"JP\n"].concat()
        };
        let (one, other) = ("0a".repeat(32), "0b".repeat(32));
        let both = [b"\n\xff", &of(&one)[..], &of(&other)].concat();
        assert_eq!(digest(&both), Some(one.parse().unwrap()));
        assert_eq!(digest(b"oci.manifest.digest"), None);
        assert_eq!(digest(&of("0a")), None);
        assert_eq!(digest(b""), None);
    }

    #[tokio::test]
    async fn a_request_without_the_secret_of_the_address_is_not_believed() {
        let send = async |receiver: DigestReceiver, path: String| {
            let address = receiver.listener.local_addr().unwrap();
            let body = format!("oci.manifest.digest\x12I\nGsha256:{}", "0a".repeat(32));
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let sending = async {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.ok();
            };
            receiver.during(sending).await.1
        };
        let receiver = DigestReceiver::listen().await.unwrap();
        let path = receiver.path.clone();
        assert_eq!(send(receiver, path).await, Some("0a".repeat(32).parse().unwrap()));
        let receiver = DigestReceiver::listen().await.unwrap();
        assert_eq!(send(receiver, "/v1/traces".to_owned()).await, None);
    }
}
