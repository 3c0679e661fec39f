//! A server with prepared answers, which records the requests it receives.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// A prepared answer: a status, headers and a body.
#[derive(Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

pub(crate) fn json(status: u16, body: &Value) -> Answer {
    Answer { status, headers: vec![], body: body.to_string().into_bytes() }
}

/// A body as text: a `Value` would not keep the digits of its numbers.
pub(crate) fn text(status: u16, body: &str) -> Answer {
    Answer { status, headers: vec![], body: body.as_bytes().to_vec() }
}

pub(crate) fn empty(status: u16) -> Answer {
    Answer { status, headers: vec![], body: vec![] }
}

/// Canyon's answer without a body.
pub(crate) fn done() -> Answer {
    Answer { status: 204, headers: vec![("x-request-id", "1".to_owned())], body: vec![] }
}

/// The answer of a gateway instead of Canyon's.
pub(crate) fn html(status: u16) -> Answer {
    let headers = vec![("content-type", "text/html".to_owned())];
    Answer { status, headers, body: b"<html><h1>Blocked</h1></html>".to_vec() }
}

/// A complete stream.
pub(crate) fn stream(body: &[u8]) -> Answer {
    let headers = vec![
        ("canyon-next-offset", body.len().to_string()),
        ("canyon-log-complete", "true".to_owned()),
    ];
    Answer { status: 200, headers, body: body.to_vec() }
}

/// The parts of a received request that tests check.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) what: String,
    pub(crate) key: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Bytes,
}

#[derive(Clone, Default)]
struct Canned {
    answers: Arc<Mutex<HashMap<String, VecDeque<Answer>>>>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

pub(crate) struct CannedServer {
    url: String,
    canned: Canned,
    _runtime: tokio::runtime::Runtime,
}

impl CannedServer {
    /// `answers` has answers to requests such as `GET /runners` (below `/orgs/local`), or to those with a parameter alone,
    /// such as `GET /deployments?ended=false`; the last one repeats.
    pub(crate) fn start(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> Self {
        let canned = Canned::default();
        for (what, answer) in answers {
            canned.answers.lock().unwrap().entry(what.to_owned()).or_default().push_back(answer);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(canned.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { url, canned, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The received requests, in order. The question whether any agent could take a deployment is left out, because it is
    /// sent while others are under way.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        let all = self.canned.requests.lock().unwrap().clone();
        all.into_iter().filter(|request| !request.what.contains("no_agent_reason")).collect()
    }

    /// How often the command asked whether any agent could take a deployment.
    pub(crate) fn questions(&self) -> usize {
        let all = self.canned.requests.lock().unwrap().len();
        all - self.requests().len()
    }

    /// The bodies of the requests that begin with `what`.
    pub(crate) fn bodies(&self, what: &str) -> Vec<Value> {
        let requests = self.requests();
        let bodies = requests.iter().filter(|request| request.what.starts_with(what));
        bodies.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
    }
}

async fn answer(State(canned): State<Canned>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
    let path = parts.uri.path().strip_prefix("/orgs/local").unwrap_or(parts.uri.path());
    let what = format!("{} {path}", parts.method);
    let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let received = ReceivedRequest {
        what: format!("{what}{query}"),
        key: header("idempotency-key"),
        authorization: header("authorization"),
        body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
    };
    canned.requests.lock().unwrap().push(received);
    let parameters = query.split(['?', '&']).skip(1);
    let keys = parameters.map(|parameter| format!("{what}?{parameter}"));
    let mut answers = canned.answers.lock().unwrap();
    let key = keys.chain([what.clone()]).find(|key| answers.contains_key(key));
    let found = key.and_then(|key| answers.get_mut(&key)).map(|answers| {
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
    });
    drop(answers);
    let missing = serde_json::json!({"error": "API-404", "message": format!("no {what}")});
    let found = found.unwrap_or_else(|| json(404, &missing));
    let mut response = Response::builder().status(found.status);
    for (name, value) in &found.headers {
        response = response.header(*name, value);
    }
    // A stream is read from an offset on.
    let offset = query.split(['?', '&']).find_map(|pair| pair.strip_prefix("offset="));
    let is_stream = |(name, _): &(&str, String)| *name == "canyon-next-offset";
    let offset = offset.filter(|_| found.headers.iter().any(is_stream));
    let offset = offset.map_or(0, |text| text.parse().unwrap());
    response.body(Body::from(found.body[offset..].to_vec())).unwrap()
}
