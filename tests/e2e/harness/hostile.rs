//! A proxy that delays, drops, duplicates and cuts requests, and answers pages of its own. A seed
//! decides at random, and never so often that nothing gets through.

use canyon_cloud::chance::Chance;
use reqwest::{Client, Method, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How many requests to one path may fail in a row: fewer than the command line retries.
const IN_A_ROW: u32 = 3;
/// No request in these tests is longer.
const MAX_REQUEST: usize = 8 * 1024 * 1024;
/// What gateways, firewalls and sign-in pages answer.
const STATUSES: [u16; 12] = [200, 204, 302, 307, 401, 403, 404, 408, 409, 413, 500, 503];
const PAGE: &str = "<html><h1>Blocked by your network</h1></html>";

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It arrives after a delay.
    Delayed,
    /// The connection ends before it arrives.
    DroppedBefore,
    /// It arrives, and its answer is lost.
    DroppedAfter,
    /// It arrives twice at once, and the second answer comes back.
    Doubled,
    /// It arrives, and a second time seconds later.
    DoubledLate,
    /// Half of the answer comes back.
    Cut,
    /// It does not arrive, and the proxy answers a page.
    Page(u16),
    /// It arrives, and the proxy answers a page.
    PageAfter(u16),
}

/// The proxy.
pub(crate) struct Hostile {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    http: Client,
    server: Arc<Mutex<String>>,
    chance: Chance,
    failed_in_a_row: Mutex<HashMap<String, u32>>,
    met: Mutex<Vec<(String, Fate)>>,
}

struct Request {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

struct Answer {
    status: StatusCode,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Hostile {
    /// Starts the proxy in front of the server at this address, which may be set later.
    pub(crate) async fn start(seed: u64, server: Arc<Mutex<String>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let redirect = reqwest::redirect::Policy::none();
        let shared = Arc::new(Shared {
            http: Client::builder().no_proxy().redirect(redirect).build().unwrap(),
            server,
            chance: Chance::new(seed),
            failed_in_a_row: Mutex::default(),
            met: Mutex::default(),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                tokio::spawn(async move { shared.serve(stream).await });
            }
        });
        Self { url, shared }
    }

    /// What happened to the requests to paths with this end, in order.
    pub(crate) fn met(&self, end: &str) -> Vec<Fate> {
        let met = self.shared.met.lock().unwrap();
        met.iter().filter(|(path, _)| path.ends_with(end)).map(|(_, fate)| *fate).collect()
    }

    /// Every request and what happened to it, for the message of a failing test.
    pub(crate) fn story(&self) -> String {
        let met = self.shared.met.lock().unwrap();
        let lines: Vec<_> = met.iter().map(|(path, fate)| format!("{fate:?} {path}")).collect();
        lines.join("\n")
    }
}

impl Shared {
    /// One request for each connection.
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let Some(request) = read(&mut stream).await else { return };
        let fate = self.fate(&request);
        let answer = match fate {
            Fate::Passes => self.forward(&request).await,
            Fate::Delayed => {
                tokio::time::sleep(self.chance.up_to(Duration::from_millis(800))).await;
                self.forward(&request).await
            }
            Fate::DroppedBefore => None,
            Fate::DroppedAfter => {
                self.forward(&request).await;
                None
            }
            Fate::Doubled => {
                let (_, second) = tokio::join!(self.forward(&request), self.forward(&request));
                second
            }
            Fate::DoubledLate => {
                let answer = self.forward(&request).await;
                let (shared, pause) = (self.clone(), self.chance.up_to(Duration::from_secs(3)));
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    shared.forward(&request).await;
                });
                answer
            }
            Fate::Cut => {
                if let Some(answer) = self.forward(&request).await {
                    let whole = answer.to_bytes();
                    let _ = stream.write_all(&whole[..whole.len() * 2 / 3]).await;
                }
                None
            }
            Fate::Page(status) => Some(self.page(status)),
            Fate::PageAfter(status) => {
                self.forward(&request).await;
                Some(self.page(status))
            }
        };
        if let Some(answer) = answer {
            let _ = stream.write_all(&answer.to_bytes()).await;
        }
        let _ = stream.shutdown().await;
    }

    fn fate(&self, request: &Request) -> Fate {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        let mut fate = self.drawn();
        let spoiled =
            !matches!(fate, Fate::Passes | Fate::Delayed | Fate::Doubled | Fate::DoubledLate);
        let mut rows = self.failed_in_a_row.lock().unwrap();
        let row = rows.entry(format!("{} {path}", request.method)).or_default();
        if spoiled && *row >= IN_A_ROW {
            fate = Fate::DoubledLate;
        }
        *row = if spoiled && *row < IN_A_ROW { *row + 1 } else { 0 };
        self.met.lock().unwrap().push((path, fate));
        fate
    }

    fn drawn(&self) -> Fate {
        let status = STATUSES[self.chance.below(STATUSES.len())];
        match self.chance.below(20) {
            0..7 => Fate::Passes,
            7..9 => Fate::Delayed,
            9 => Fate::DroppedBefore,
            10..12 => Fate::DroppedAfter,
            12 => Fate::Doubled,
            13..15 => Fate::DoubledLate,
            15..17 => Fate::Cut,
            17 => Fate::PageAfter(status),
            _ => Fate::Page(status),
        }
    }

    fn page(&self, status: u16) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        let mut headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        if status.is_redirection() {
            // The redirect leads to Canyon itself, without a token: the answer is a refusal.
            let portal = format!("{}/sign-in", self.server.lock().unwrap());
            headers.push(("location".to_owned(), portal));
        }
        let body = if status == StatusCode::NO_CONTENT { Vec::new() } else { PAGE.into() };
        Answer { status, headers, body }
    }

    /// The server's answer, if there is one.
    async fn forward(&self, request: &Request) -> Option<Answer> {
        let url = format!("{}{}", self.server.lock().unwrap(), request.path);
        let mut sent = self.http.request(request.method.clone(), url);
        for (name, value) in &request.headers {
            sent = sent.header(name, value);
        }
        let answer = sent.body(request.body.clone()).send().await.ok()?;
        let status = answer.status();
        let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = answer.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
        let headers = headers.filter(|(name, _)| !is_of_connection(name)).collect();
        let body = answer.bytes().await.ok()?.to_vec();
        Some(Answer { status, headers, body })
    }
}

impl Answer {
    fn to_bytes(&self) -> Vec<u8> {
        let mut head = vec![format!("HTTP/1.1 {}", self.status), "connection: close".to_owned()];
        head.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if self.status != StatusCode::NO_CONTENT {
            head.push(format!("content-length: {}", self.body.len()));
        }
        [head.join("\r\n").as_bytes(), b"\r\n\r\n", &self.body].concat()
    }
}

fn is_of_connection(name: &str) -> bool {
    ["host", "connection", "content-length", "transfer-encoding", "accept-encoding"].contains(&name)
}

/// A request with a body of the length that its header states; the clients of these tests send no
/// other.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 || bytes.len() > MAX_REQUEST {
            return None;
        }
    };
    let mut body = bytes.split_off(head + 4);
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.parse().ok()?, first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let headers = headers.into_iter().filter(|(name, _)| !is_of_connection(name)).collect();
    Some(Request { method, path, headers, body })
}
