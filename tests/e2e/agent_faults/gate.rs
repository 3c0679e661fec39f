//! A proxy between an agent, or its jobs, and Canyon. It records requests, and holds one request at the step that a
//! test waits for.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// No body of an agent or a job in these tests is longer.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// A step that does not come within this time never comes.
const LIMIT: Duration = Duration::from_mins(3);

/// A step in the life of an agent or of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The agent opens a session.
    Open,
    /// The agent is offered a job.
    Offer,
    /// The agent takes the job.
    Take,
    /// The agent reports that the job has begun.
    Report,
    /// The agent reports that the job is gone.
    Gone,
    /// Canyon asks the agent to remove the job.
    Forget,
    /// The agent reports that it has removed the job.
    Forgotten,
    /// Canyon asks the agent to stop the job.
    Stop,
    /// The agent reports that it has asked the job to stop.
    Stopped,
    /// The job claims its attempt.
    Claim,
    /// The job reports its progress, and asks for nothing.
    Prepare,
    /// The job asks whether its apply may begin.
    Begin,
    /// The job reports its result.
    Result,
}

/// Where a request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// Canyon has not received the request.
    Before,
    /// Canyon has answered, and the sender has not received the answer.
    After,
}

/// A request as the agent or job sent it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) bearer: String,
    pub(crate) body: Bytes,
    pub(crate) status: u16,
}

struct Trap {
    step: Step,
    side: Side,
    caught: oneshot::Sender<oneshot::Sender<bool>>,
}

struct Shared {
    http: reqwest::Client,
    server: String,
    cut: AtomicBool,
    recorded: Mutex<Vec<Recorded>>,
    trap: Mutex<Option<Trap>>,
    /// Finished deployments, for which no trap is set any more.
    past: Mutex<Vec<String>>,
}

/// The proxy through which an agent reaches Canyon.
pub(crate) struct Gate {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

/// A trap that is set.
pub(crate) struct Waiting(oneshot::Receiver<oneshot::Sender<bool>>);

/// A request that is held.
pub(crate) struct Held(oneshot::Sender<bool>);

impl Waiting {
    /// Waits until the step has come.
    pub(crate) async fn caught(self) -> Held {
        let caught = tokio::time::timeout(LIMIT, self.0).await;
        Held(caught.expect("the step did not come").expect("the trap is set until it is sprung"))
    }
}

impl Held {
    /// Lets the request go on.
    pub(crate) fn pass(self) {
        let _ = self.0.send(true);
    }

    /// Drops the request: its sender sees a network failure.
    pub(crate) fn lose(self) {
        let _ = self.0.send(false);
    }
}

impl Gate {
    /// Starts the gate in front of the server at `server`, which may be restarted.
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            server: server.to_owned(),
            cut: AtomicBool::new(false),
            recorded: Mutex::default(),
            trap: Mutex::default(),
            past: Mutex::default(),
        });
        let router = Router::new().fallback(pass_on).with_state(shared.clone());
        // The task ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// Holds the next request of `step`, and no other.
    pub(crate) fn trap(&self, step: Step, side: Side) -> Waiting {
        let (caught, waiting) = oneshot::channel();
        *self.shared.trap.lock().unwrap() = Some(Trap { step, side, caught });
        Waiting(waiting)
    }

    /// Marks a deployment as finished: a late report about it is not a step that a test waits for.
    pub(crate) fn is_past(&self, id: &str) {
        self.shared.past.lock().unwrap().push(id.to_owned());
    }

    /// Cuts the connection, or restores it.
    pub(crate) fn cut(&self, cut: bool) {
        self.shared.cut.store(cut, Ordering::SeqCst);
    }

    /// The requests that Canyon has answered since the last call.
    pub(crate) fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.shared.recorded.lock().unwrap())
    }
}

impl Shared {
    /// Springs the trap if it is set for this step and side; returns whether the request goes on.
    async fn passes(&self, side: Side, asked: &Asked, answer: Option<&Value>) -> bool {
        let Some(held) = self.spring(side, asked, answer) else {
            return !self.cut.load(Ordering::SeqCst);
        };
        // A test that ends releases the request that it holds.
        held.await.unwrap_or(false)
    }

    fn spring(
        &self,
        side: Side,
        asked: &Asked,
        answer: Option<&Value>,
    ) -> Option<oneshot::Receiver<bool>> {
        let mut trap = self.trap.lock().unwrap();
        let past = self.past.lock().unwrap();
        let is_meant = |trap: &Trap| trap.side == side && asked.is(trap.step, answer, &past);
        if !trap.as_ref().is_some_and(is_meant) {
            return None;
        }
        let (go, held) = oneshot::channel();
        trap.take()?.caught.send(go).ok()?;
        Some(held)
    }
}

/// The request of an agent or a job.
struct Asked {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    fn is(&self, step: Step, answer: Option<&Value>, past: &[String]) -> bool {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let is_past = |item: &Value| past.iter().any(|id| item["job"]["deployment"] == **id);
        let has = |list: &Value, wanted: &dyn Fn(&Value) -> bool| {
            list.as_array().is_some_and(|items| items.iter().any(|it| !is_past(it) && wanted(it)))
        };
        let on = |end: &str| self.path.ends_with(end);
        let reports =
            |wanted: &dyn Fn(&Value) -> bool| on("/reports") && has(&body["reports"], wanted);
        let answers = |list: &str, wanted: &dyn Fn(&Value) -> bool| {
            on("/poll") && answer.is_some_and(|answer| has(&answer[list], wanted))
        };
        let is_gone = |report: &Value| report["observation"]["state"] == "gone";
        match step {
            Step::Open => on("/sessions"),
            Step::Offer => answers("offers", &|_| true),
            Step::Take => on("/take"),
            Step::Report => reports(&|report| !report["observation"].is_null() && !is_gone(report)),
            Step::Gone => reports(&is_gone),
            Step::Forget => answers("wishes", &|wish| wish["wish"] == "forget"),
            Step::Forgotten => reports(&|report| report["done"] == "forget"),
            Step::Stop => answers("wishes", &|wish| wish["wish"] == "stop"),
            Step::Stopped => reports(&|report| report["done"] == "stop"),
            Step::Claim => on("/claim"),
            Step::Prepare => on("/report") && body["phase"] != "apply",
            // The job reports this phase several times. The first report is the step: the job waits for its answer.
            Step::Begin => on("/report") && body["phase"] == "apply",
            Step::Result => on("/results"),
        }
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else { return lost() };
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let asked = Asked { method: parts.method, path, headers: parts.headers, body };
    if !shared.passes(Side::Before, &asked, None).await {
        return lost();
    }
    let Ok((status, headers, answer)) = forward(&shared, &asked).await else { return lost() };
    let value = serde_json::from_slice(&answer).unwrap_or_default();
    record(&shared, asked.clone_request(status));
    if !shared.passes(Side::After, &asked, Some(&value)).await {
        return lost();
    }
    (status, headers, answer).into_response()
}

impl Asked {
    fn clone_request(&self, status: StatusCode) -> Recorded {
        let bearer = self.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        Recorded {
            method: self.method.clone(),
            path: self.path.clone(),
            bearer: bearer.to_owned(),
            body: self.body.clone(),
            status: status.as_u16(),
        }
    }
}

fn record(shared: &Shared, request: Recorded) {
    shared.recorded.lock().unwrap().push(request);
}

async fn forward(
    shared: &Shared,
    asked: &Asked,
) -> Result<(StatusCode, HeaderMap, Bytes), reqwest::Error> {
    let mut headers = asked.headers.clone();
    for of_connection in
        [header::HOST, header::CONTENT_LENGTH, header::CONNECTION, header::ACCEPT_ENCODING]
    {
        headers.remove(of_connection);
    }
    let request =
        shared.http.request(asked.method.clone(), format!("{}{}", shared.server, asked.path));
    let answer = request.headers(headers).body(asked.body.clone()).send().await?;
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    for of_connection in [header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING] {
        headers.remove(of_connection);
    }
    Ok((status, headers, answer.bytes().await?))
}

/// The answer of a gateway whose upstream does not respond.
fn lost() -> Response {
    StatusCode::BAD_GATEWAY.into_response()
}
