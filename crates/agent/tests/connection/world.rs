//! A small server in Canyon's place, the network in between, and a platform on which the agent launches.

use async_trait::async_trait;
use canyon_agent::exit::Exit;
use canyon_agent::kinds::{Kind, KindError};
use canyon_agent::settings::Settings;
use canyon_agent::settings::dispatcher::{DispatcherSettings, DispatcherType};
use canyon_agent::settings::identity::IdentitySettings;
use canyon_agent::settings::served::Served;
use canyon_agent::sign_in::SignIn;
use canyon_agent::stop::Stop;
use canyon_api::agent::JobKey;
use canyon_api::nonce::{ANSWER_NONCE_HEADER, NONCE_HEADER};
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, RemovalOutcome, Started, StopMode, TailStream,
    Target,
};
use canyon_domain::deadline::Observation;
use canyon_domain::runner::RunnerType;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

const ID: &str = "00000000-0000-7000-8000-000000000001";
/// The lifetime of an exchanged token.
const LIFE: Duration = Duration::from_mins(15);

/// What happens to a take.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Canyon records it, and the answer is lost.
    Cut,
    /// Canyon asks for a retry after a second.
    Busy,
    /// The session does not exist any more.
    Over,
}

/// What happens to every request.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Network {
    /// It arrives.
    #[default]
    Open,
    /// Each connection is closed at once.
    Refusing,
    /// Each connection stays open without an answer.
    Silent,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) network: Network,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) sessions: u64,
    is_taken: bool,
    /// Whether the job has ended.
    pub(crate) is_over: bool,
    /// Session and time of each take.
    pub(crate) takes: Vec<(u64, Instant)>,
    pub(crate) polls: Vec<Instant>,
    /// The claim code of each start.
    pub(crate) started: Vec<String>,
    pub(crate) reports: Vec<Value>,
    /// When each token was issued.
    pub(crate) tokens: Vec<Instant>,
    /// Connections that failed.
    pub(crate) failed: u32,
    silent: Vec<TcpStream>,
}

pub(crate) type World = Arc<Mutex<Seen>>;

impl Seen {
    /// The connection, unless the network breaks it.
    fn connected(&mut self, stream: TcpStream) -> Option<TcpStream> {
        match self.network {
            Network::Open => return Some(stream),
            Network::Refusing => {}
            Network::Silent => self.silent.push(stream),
        }
        self.failed += 1;
        None
    }

    fn exchange(&mut self) -> Value {
        let access_token = format!("exchanged-{}", self.tokens.len());
        self.tokens.push(Instant::now());
        json!({
            "access_token": access_token,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": LIFE.as_secs(),
        })
    }

    /// Whether it is the token of the settings, or an exchanged one that has not expired.
    fn knows(&self, bearer: &str) -> bool {
        let Some(number) = bearer.strip_prefix("bearer exchanged-") else {
            return bearer == "bearer t";
        };
        self.tokens[number.parse::<usize>().unwrap()].elapsed() < LIFE
    }
}

fn key() -> Value {
    json!({ "runner": ID, "deployment": ID, "attempt": 1 })
}

fn order() -> Value {
    json!({
        "org_id": "acme", "runner_id": "far", "kind": "local", "project": "shop", "env": "dev",
        "definition": {
            "runner_configuration": { "type": "local" },
            "state_storage_configuration": { "type": "local", "path": "/var/tmp/states" },
        },
        "launched_at": "2026-01-01T10:00:00Z",
    })
}

struct Request {
    path: String,
    /// In lower case.
    authorization: String,
    /// The answer must repeat this.
    nonce: String,
    body: Value,
}

/// The answer to a request, or none.
fn answer(seen: &mut Seen, request: &Request) -> Option<(u16, Value)> {
    let parts: Vec<_> = request.path.split('/').collect();
    let what = parts.last().copied()?;
    let session = parts.iter().rev().nth(1)?.parse().unwrap_or_default();
    if seen.network != Network::Open {
        return None;
    }
    if what == "token" {
        return Some((200, seen.exchange()));
    }
    if !seen.knows(&request.authorization) {
        return Some((401, error(401, "the token has expired")));
    }
    agent_answer(seen, what, session, &request.body)
}

fn agent_answer(seen: &mut Seen, what: &str, session: u64, body: &Value) -> Option<(u16, Value)> {
    match what {
        "sessions" => {
            seen.sessions += 1;
            let held = json!({ "job": key(), "order": order(), "wish": "run" });
            let held: Vec<_> = seen.is_taken.then_some(held).into_iter().collect();
            let opened = json!({
                "session": seen.sessions, "state": "adopted", "protocol": 1, "pause_ms": 0, "held": held,
            });
            Some((201, opened))
        }
        "poll" => {
            seen.polls.push(Instant::now());
            let offers: Vec<_> = (!seen.is_taken).then(key).into_iter().collect();
            Some((200, json!({ "offers": offers })))
        }
        "take" => {
            assert_eq!(body["jobs"], json!([key()]));
            seen.takes.push((session, Instant::now()));
            match seen.faults.pop_front() {
                Some(Fault::Busy) => Some((429, error(429, "too many"))),
                Some(Fault::Over) => Some((404, error(404, "no such session"))),
                fault => {
                    seen.is_taken = true;
                    fault.is_none().then(|| (200, json!({ "taken": [taken(session)] })))
                }
            }
        }
        "reports" => {
            seen.reports.extend(body["reports"].as_array().unwrap().clone());
            Some((200, json!({})))
        }
        _ => Some((200, json!({}))),
    }
}

fn taken(session: u64) -> Value {
    let environment = json!({ "CANYON_CLAIM_CODE": format!("of {session}") });
    json!({ "job": key(), "order": order(), "environment": environment })
}

fn error(status: u16, message: &str) -> Value {
    json!({ "error": format!("API-{status}"), "message": message })
}

async fn request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let path = head.split(' ').nth(1)?.to_owned();
                let authorization = header(head, "authorization").unwrap_or_default();
                let nonce = header(head, NONCE_HEADER).unwrap_or_default();
                let body = serde_json::from_str(body).unwrap_or_default();
                return Some(Request { path, authorization, nonce, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The value of a header, in lower case.
fn header(head: &str, name: &str) -> Option<String> {
    head.lines().map(str::to_ascii_lowercase).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found == name).then(|| value.trim().to_owned())
    })
}

async fn serve(mut stream: TcpStream, world: World) -> Option<()> {
    let request = request(&mut stream).await?;
    if request.path.ends_with("/poll") {
        // As if no work came for a while.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, body) = answer(&mut world.lock().unwrap(), &request)?;
    let text = body.to_string();
    let retry_after = if status == 429 { "Retry-After: 1\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} X\r\n{ANSWER_NONCE_HEADER}: {}\r\n{retry_after}Content-Length: {}\r\nConnection: close\r\n\r\n",
        request.nonce,
        text.len()
    );
    stream.write_all(format!("{head}{text}").as_bytes()).await.ok()
}

/// Starts the server in Canyon's place, and returns its address.
pub(crate) async fn listen(world: &World) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = world.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connected = served.lock().unwrap().connected(stream);
            if let Some(stream) = connected {
                tokio::spawn(serve(stream, served.clone()));
            }
        }
    });
    url
}

/// A platform on which a job lives until the test ends it.
struct Platform(World);

#[async_trait]
impl Kind for Platform {
    fn serves(&self) -> RunnerType {
        RunnerType::Local
    }

    async fn platform_id(&self) -> Result<String, KindError> {
        Ok("here".to_owned())
    }

    fn dispatcher(&self, _: &Arc<Target>) -> Arc<dyn Dispatcher> {
        Arc::new(Self(self.0.clone()))
    }

    async fn found(&self) -> Result<Vec<JobKey>, KindError> {
        Ok(Vec::new())
    }

    fn cleaner(&self, _: &JobKey) -> Option<Arc<dyn Dispatcher>> {
        None
    }
}

#[async_trait]
impl Dispatcher for Platform {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        let code = launch.environment["CANYON_CLAIM_CODE"].expose_secret().to_owned();
        self.0.lock().unwrap().started.push(code);
        Ok(Started::Now(None))
    }

    async fn observe(&self, _: &JobRef) -> Observation {
        let seen = self.0.lock().unwrap();
        if seen.started.is_empty() || seen.is_over {
            Observation::Gone(None)
        } else {
            Observation::Alive
        }
    }

    async fn stop(&self, _: &JobRef, _: StopMode) -> Result<(), DispatchError> {
        Ok(())
    }

    async fn tail(&self, _: &JobRef, _: TailStream, _: u64) -> Result<Vec<u8>, DispatchError> {
        Ok(Vec::new())
    }

    async fn forget(&self, _: &JobRef) -> RemovalOutcome {
        RemovalOutcome::Removed
    }
}

fn served() -> Served {
    let runner = Some("far".parse().unwrap());
    Served { org: "acme".parse().unwrap(), runner, account: None }
}

fn settings(url: &str) -> Settings {
    Settings {
        api_url: url.to_owned(),
        served: vec![served()],
        name: "east-1".parse().unwrap(),
        labels: BTreeMap::new(),
        run_untagged_jobs: None,
        identity: IdentitySettings::Token("t".into()),
        dispatcher: DispatcherSettings::of(DispatcherType::Local, []),
        state_dir: "/state".into(),
        concurrency: 1,
        drain: Duration::ZERO,
        single: false,
        reserved: false,
        listen_health: None,
        authorities: None,
        runner_program: None,
        warnings: Vec::new(),
    }
}

pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Runs an agent until `test` has ended, and returns what the agent did.
pub(crate) async fn work(
    world: &World,
    url: &str,
    sign_in: SignIn,
    test: impl Future<Output = ()>,
) -> Seen {
    let (stop, stops) = watch::channel(0);
    let kind = Arc::new(Platform(world.clone()));
    let proofs = vec![(served(), sign_in)];
    let agent = canyon_agent::run_as(settings(url), kind, proofs, http(), Stop::of(stops));
    let tested = async {
        test.await;
        stop.send_replace(1);
    };
    let (exit, ()) = tokio::join!(agent, tested);
    assert_eq!(exit, Exit::Done);
    std::mem::take(&mut *world.lock().unwrap())
}
