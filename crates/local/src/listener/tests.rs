use super::*;
use axum::body::Body;
use axum::body::Bytes;
use axum::routing::{get, post};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(300);
const HALF: &[u8] = b"GET /health HTTP/1.1\r\nhost: x\r\nx-half: ";

/// A server on a free port, with handlers that wait.
struct Served {
    address: SocketAddr,
    /// `/wait` is answered after this notification.
    go_on: Arc<Notify>,
    /// Receives a message when the body of `/large` is dropped.
    dropped: mpsc::UnboundedReceiver<()>,
    closing: watch::Sender<()>,
    server: tokio::task::JoinHandle<()>,
    listeners: mpsc::Sender<TcpListener>,
}

/// An endless answer.
struct Endless(mpsc::UnboundedSender<()>);

impl axum::body::HttpBody for Endless {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        Poll::Ready(Some(Ok(http_body::Frame::data(vec![b'x'; 65_536].into()))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

async fn served(limits: Limits) -> Served {
    let (go_on, (ended, dropped)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let waiting = go_on.clone();
    let wait = move || {
        let waiting = waiting.clone();
        async move {
            waiting.notified().await;
            "done"
        }
    };
    let ended = Arc::new(Mutex::new(Some(ended)));
    let large = move || {
        let ended = ended.lock().unwrap().take();
        async move { Body::new(Endless(ended.unwrap())) }
    };
    let router = Router::new()
        .route("/health", get(|| async { "ok" }))
        .route("/wait", get(wait))
        .route("/large", get(large))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (closing, closes) = watch::channel(());
    let (listeners, added) = mpsc::channel(1);
    let server = tokio::spawn(serve(Listeners::new(listener, added), router, limits, closes));
    Served { address, go_on, dropped, closing, server, listeners }
}

fn limits(connections: usize) -> Limits {
    Limits { connections, head: LONG, idle: LONG, stall: LONG }
}

impl Served {
    async fn send(&self, bytes: &[u8]) -> TcpStream {
        send_to(self.address, bytes).await
    }

    async fn get(&self, path: &str) -> String {
        get_from(self.address, path).await
    }
}

async fn send_to(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Sends a request on a connection of its own, and returns the whole answer.
async fn get_from(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let mut stream = send_to(address, request.as_bytes()).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Reads until the server closes the connection. Returns what was read.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
    // If the server closes a connection with unread bytes, the read ends with a reset.
    let _ = read.await.expect("it stays open");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_connection_with_an_incomplete_request_is_closed() {
    let served = served(Limits { head: SHORT, ..limits(16) }).await;
    assert_eq!(until_closed(served.send(HALF).await).await, "");
    // A connection that was answered and begins its next request.
    let mut stream = served.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    stream.write_all(b"GET").await.unwrap();
    until_closed(stream).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_that_is_being_answered_is_not() {
    let served = served(Limits { idle: SHORT, ..limits(16) }).await;
    let waits = served.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(until_closed(served.send(b"").await).await, "");
    let stream = served.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(until_closed(stream).await.ends_with("ok"));
    served.go_on.notify_one();
    assert!(until_closed(waits).await.ends_with("done"), "it waited for longer than that");
}

#[tokio::test]
async fn a_slow_body_is_accepted_as_long_as_bytes_come() {
    let limits = Limits { head: SHORT, idle: SHORT, stall: SHORT, connections: 16 };
    let served = served(limits).await;
    let head =
        b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nconnection: close\r\n\r\n";
    let mut stream = served.send(head).await;
    for _ in 0..10 {
        tokio::time::sleep(SHORT / 3).await;
        stream.write_all(b"x").await.unwrap();
    }
    assert!(until_closed(stream).await.ends_with("10"));
}

#[tokio::test]
async fn an_answer_that_its_peer_does_not_read_is_dropped() {
    let mut served = served(Limits { stall: SHORT, ..limits(16) }).await;
    let _unread = served.send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let dropped = tokio::time::timeout(Duration::from_secs(20), served.dropped.recv()).await;
    assert_eq!(dropped.expect("the answer is held"), Some(()));
    assert!(served.get("/health").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn many_incomplete_and_idle_connections_do_not_block_other_requests() {
    let served = served(limits(16)).await;
    let waits = served.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(served.get("/health").await.starts_with("HTTP/1.1 200"));
    let mut crowd = Vec::new();
    for number in 0..300 {
        let half_body = b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf";
        let what: &[u8] = [HALF, b"", half_body][number % 3];
        crowd.push(served.send(what).await);
        if number % 20 == 0 {
            assert!(served.get("/health").await.starts_with("HTTP/1.1 200"), "{number}");
        }
    }
    assert!(served.get("/health").await.starts_with("HTTP/1.1 200"));
    served.go_on.notify_one();
    let mut first = [0; 12];
    let mut waits = waits;
    waits.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200", "an answer in progress is not evicted");
}

#[tokio::test]
async fn if_all_connections_are_being_answered_a_new_one_gets_503_with_retry_after() {
    let served = served(limits(2)).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(served.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await);
    }
    // Until both requests have been read, their connections may count as idle.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let refused = until_closed(served.send(b"").await).await;
        if refused.starts_with("HTTP/1.1 503") {
            assert!(refused.contains("retry-after: 1") && refused.ends_with("{}}"), "{refused}");
            break;
        }
        assert!(Instant::now() < deadline, "{refused}");
        waiting.push(served.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await);
    }
}

#[tokio::test]
async fn at_its_end_the_listener_closes_idle_connections_and_completes_answers_in_progress() {
    let served = served(limits(16)).await;
    let idle = served.send(b"").await;
    let waits = served.send(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(served.get("/health").await.starts_with("HTTP/1.1 200"));
    drop(served.closing);
    assert_eq!(until_closed(idle).await, "");
    served.go_on.notify_one();
    assert!(until_closed(waits).await.ends_with("done"));
    let ended = tokio::time::timeout(Duration::from_secs(20), served.server).await;
    ended.expect("the listener goes on").unwrap();
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let served = served(limits(16)).await;
    let mut request = b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: ".to_vec();
    request.extend(vec![b'x'; 40 * 1024]);
    request.extend(b"\r\n\r\n");
    let answer = until_closed(served.send(&request).await).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[test]
fn few_descriptors_leave_room_for_the_database_and_many_do_not_raise_the_bound() {
    let connections = |descriptors| Limits::of_descriptors(descriptors).connections;
    assert_eq!([0, 256, 1024, 1 << 20].map(connections), [16, 160, 928, 4096]);
}

#[tokio::test]
async fn a_listener_that_is_added_later_is_served_beside_the_first_and_replaced_by_the_next() {
    let served = served(limits(8)).await;
    let mut earlier = None;
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        served.listeners.send(listener).await.unwrap();
        assert!(get_from(address, "/health").await.ends_with("ok"));
        assert!(served.get("/health").await.ends_with("ok"));
        if let Some(earlier) = earlier.replace(address) {
            assert!(TcpStream::connect(earlier).await.is_err(), "{earlier} is closed");
        }
    }
}
