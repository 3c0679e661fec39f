//! Counts the functions' requests to the table. A proxy in front of the table asks DynamoDB for the consumed
//! capacity of every request, and sums it up, so published programs can be measured unchanged.

use crate::Error;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// The largest request of DynamoDB is 16 MB.
const LIMIT: usize = 16 * 1024 * 1024;

/// The usage of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) requests: f64,
    pub(crate) units: f64,
}

/// The usage by function and operation.
pub(crate) type Counts = BTreeMap<(&'static str, String), Usage>;

/// A meter. Clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<Reading>>);

#[derive(Default)]
struct Reading {
    counts: Counts,
    last: Option<Instant>,
}

#[derive(Clone)]
struct Listener {
    function: &'static str,
    upstream: String,
    client: reqwest::Client,
    meter: Meter,
}

impl Meter {
    /// Opens a listener for one function that forwards everything to `upstream`. Returns its address.
    pub(crate) async fn open(
        &self,
        function: &'static str,
        upstream: String,
    ) -> Result<String, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let client = reqwest::Client::new();
        let state = Listener { function, upstream, client, meter: self.clone() };
        let router = Router::new().fallback(pass_on).with_state(state);
        tokio::spawn(axum::serve(listener, router).into_future());
        Ok(address)
    }

    /// The counts so far; counting starts again at zero.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut self.lock().counts)
    }

    /// The time since the last request.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.lock().last.map_or(Duration::MAX, |last| last.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass_on(State(listener): State<Listener>, request: Request) -> Response {
    match listener.send(request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = Response::new(Body::from(error.to_string()));
            *response.status_mut() = http::StatusCode::BAD_GATEWAY;
            response
        }
    }
}

impl Listener {
    async fn send(&self, request: Request) -> Result<Response, Error> {
        let (mut head, body) = request.into_parts();
        let mut body: Value = serde_json::from_slice(&axum::body::to_bytes(body, LIMIT).await?)?;
        body["ReturnConsumedCapacity"] = json!("INDEXES");
        let written = body["TransactItems"].as_array().map(|items| transaction(items));
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.and_then(|target| target.rsplit('.').next()).unwrap_or_default();
        let operation = operation.to_owned();
        for name in [http::header::HOST, http::header::CONTENT_LENGTH] {
            head.headers.remove(name);
        }
        let url = format!("{}{}", self.upstream, head.uri.path());
        let request = self.client.request(head.method, url).headers(head.headers);
        let answer = request.body(body.to_string()).send().await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let said = answer.bytes().await?;
        let mut reading = self.meter.lock();
        reading.last = Some(Instant::now());
        let usage = reading.counts.entry((self.function, operation)).or_default();
        usage.requests += 1.0;
        usage.units += units(&said, written);
        drop(reading);
        let mut response = Response::new(Body::from(said));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        for name in [http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING] {
            response.headers_mut().remove(name);
        }
        Ok(response)
    }
}

/// The consumed capacity that an answer reports, including the indexes.
///
/// DynamoDB Local counts transactions wrongly: 8 units for the items of any with several, and 4 for an entry
/// of an index. So `written` is DynamoDB's count for the items, and an entry counts as 1, because an index
/// is written after the transaction.
fn units(answer: &Bytes, written: Option<f64>) -> f64 {
    let Ok(answer) = serde_json::from_slice::<Value>(answer) else { return 0.0 };
    let units = |part: &Value| part["CapacityUnits"].as_f64().unwrap_or_default();
    let of = |one: &Value| {
        let indexes = one["GlobalSecondaryIndexes"].as_object();
        let entries: f64 = indexes.into_iter().flat_map(|all| all.values()).map(units).sum();
        match written {
            Some(written) => written + entries / 4.0,
            None => units(&one["Table"]) + entries,
        }
    };
    match &answer["ConsumedCapacity"] {
        Value::Array(all) => all.iter().map(of).sum(),
        one => of(one),
    }
}

/// Two units for each started KB of each item: to prepare and to commit ("Amazon DynamoDB Transactions: How
/// it works"). Items that are not put are small here.
fn transaction(items: &[Value]) -> f64 {
    let of = |item: &Value| {
        let size = item["Put"]["Item"].as_object().map_or(1.0, attributes);
        2.0 * (size / 1024.0).ceil()
    };
    items.iter().map(of).sum()
}

/// The size of an item as DynamoDB counts it: names, and values in UTF-8 ("Amazon DynamoDB item sizes and
/// formats"). Numbers count as their digits here, which is an upper bound.
fn attributes(item: &serde_json::Map<String, Value>) -> f64 {
    item.iter().map(|(name, value)| length(name) + size(value)).sum()
}

fn size(value: &Value) -> f64 {
    let Some((kind, value)) = value.as_object().and_then(|value| value.iter().next()) else {
        return 0.0;
    };
    match (kind.as_str(), value) {
        ("M", Value::Object(map)) => 3.0 + attributes(map),
        ("L", Value::Array(list)) => 3.0 + list.iter().map(|one| 1.0 + size(one)).sum::<f64>(),
        (_, Value::String(text)) => length(text),
        _ => 1.0,
    }
}

fn length(text: &str) -> f64 {
    u32::try_from(text.len()).map_or(f64::MAX, f64::from)
}
