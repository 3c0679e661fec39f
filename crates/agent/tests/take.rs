//! Taking offers over a line that breaks: a small server in Canyon's place cuts connections, is busy, or has
//! forgotten the session.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

use async_trait::async_trait;
use canyon_agent::exit::Exit;
use canyon_agent::kinds::{Kind, KindError};
use canyon_agent::settings::Settings;
use canyon_agent::settings::dispatcher::{DispatcherSettings, DispatcherType};
use canyon_agent::settings::identity::IdentitySettings;
use canyon_agent::sign_in::SignIn;
use canyon_agent::stop::Stop;
use canyon_api::agent::JobKey;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Remains, Started, StopMode, TailStream, Target,
};
use canyon_domain::deadline::Observation;
use canyon_domain::runner::RunnerType;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const ID: &str = "00000000-0000-7000-8000-000000000001";

/// What becomes of a take.
#[derive(Clone, Copy)]
enum Fault {
    /// Canyon has taken it in, and its answer is lost.
    Cut,
    /// It is to be asked again after a second.
    Busy,
    /// The session is not there any more.
    Over,
}

#[derive(Default)]
struct Seen {
    faults: VecDeque<Fault>,
    sessions: u64,
    is_taken: bool,
    /// Session and time of each take.
    takes: Vec<(u64, Instant)>,
    polls: Vec<Instant>,
    /// The claim code of each start.
    started: Vec<String>,
    reports: Vec<Value>,
}

type World = Arc<Mutex<Seen>>;

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

/// The answer to a request, or none.
fn answer(seen: &mut Seen, what: &str, session: u64, body: &Value) -> Option<(u16, Value)> {
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
                Some(Fault::Busy) => Some((429, error("too many"))),
                Some(Fault::Over) => Some((404, error("no such session"))),
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

fn error(message: &str) -> Value {
    json!({ "error": "API", "message": message })
}

async fn request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines = head.lines().map(str::to_ascii_lowercase);
            let mut length = lines.filter_map(|line| {
                line.strip_prefix("content-length:").map(|length| length.trim().to_owned())
            });
            let length = length.next_back().map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                let path = head.split(' ').nth(1)?.to_owned();
                return Some((path, serde_json::from_str(body).unwrap_or_default()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn serve(mut stream: TcpStream, world: World) -> Option<()> {
    let (path, body) = request(&mut stream).await?;
    let words: Vec<_> = path.split('/').collect();
    let what = words.last().copied()?;
    let session = words.iter().rev().nth(1)?.parse().unwrap_or_default();
    if what == "poll" {
        // As if nothing came for a while.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, body) = answer(&mut world.lock().unwrap(), what, session, &body)?;
    let text = body.to_string();
    let again = if status == 429 { "Retry-After: 1\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} X\r\n{again}Content-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(format!("{head}{text}").as_bytes()).await.ok()
}

/// A platform on which every job lives for ever.
struct Platform(World);

#[async_trait]
impl Kind for Platform {
    fn serves(&self) -> RunnerType {
        RunnerType::Local
    }

    async fn place(&self) -> Result<String, KindError> {
        Ok("here".to_owned())
    }

    fn dispatcher(&self, _: &Arc<Target>) -> Arc<dyn Dispatcher> {
        Arc::new(Self(self.0.clone()))
    }

    async fn found(&self) -> Result<Vec<JobKey>, KindError> {
        Ok(Vec::new())
    }

    fn clearer(&self, _: &JobKey) -> Option<Arc<dyn Dispatcher>> {
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
        match &*self.0.lock().unwrap().started {
            [] => Observation::Gone(None),
            _ => Observation::Alive,
        }
    }

    async fn stop(&self, _: &JobRef, _: StopMode) -> Result<(), DispatchError> {
        Ok(())
    }

    async fn tail(&self, _: &JobRef, _: TailStream, _: u64) -> Result<Vec<u8>, DispatchError> {
        Ok(Vec::new())
    }

    async fn forget(&self, _: &JobRef) -> Remains {
        Remains::Nothing
    }
}

fn settings(url: &str) -> Settings {
    Settings {
        api_url: url.to_owned(),
        org: "acme".parse().unwrap(),
        runner: Some("far".parse().unwrap()),
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
        ca_file: None,
        runner_program: None,
        warnings: Vec::new(),
    }
}

/// What an agent did until its job was started and seen to live, with these faults on the way.
async fn worked_through(faults: impl IntoIterator<Item = Fault>) -> Seen {
    let faults = faults.into_iter().collect();
    let world: World = Arc::new(Mutex::new(Seen { faults, ..Seen::default() }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = world.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, served.clone()));
        }
    });
    let (stop, stops) = watch::channel(0);
    let kind = Arc::new(Platform(world.clone()));
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let sign_in = SignIn::Token("t".into());
    let agent = canyon_agent::run_as(settings(&url), kind, sign_in, http, Stop::of(stops));
    let heard = async {
        while world.lock().unwrap().reports.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.send_replace(1);
    };
    let both = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(agent, heard) });
    let Ok((exit, ())) = both.await else { panic!("the job was never heard of") };
    assert_eq!(exit, Exit::Done);
    std::mem::take(&mut *world.lock().unwrap())
}

#[tokio::test]
async fn a_take_whose_answer_is_lost_is_asked_again_until_the_job_is_started() {
    let seen = worked_through([Fault::Cut, Fault::Cut, Fault::Cut]).await;
    let sessions: Vec<_> = seen.takes.iter().map(|(session, _)| *session).collect();
    assert_eq!(sessions, [1, 1, 1, 1], "in the same session");
    assert_eq!(seen.started, ["of 1"], "once");
    assert_eq!(seen.reports[0]["observation"]["state"], "alive", "{:?}", seen.reports);
}

#[tokio::test]
async fn a_take_in_doubt_outlives_its_session_and_the_job_is_never_said_to_be_gone() {
    let seen = worked_through([Fault::Cut, Fault::Over, Fault::Cut]).await;
    let sessions: Vec<_> = seen.takes.iter().map(|(session, _)| *session).collect();
    assert_eq!(sessions, [1, 1, 2, 2]);
    assert_eq!(seen.started, ["of 2"]);
    assert!(seen.reports.iter().all(|report| report["observation"]["state"] == "alive"));
}

#[tokio::test]
async fn a_busy_canyon_is_asked_for_the_jobs_when_it_says_and_hears_of_the_agent_meanwhile() {
    let seen = worked_through([Fault::Busy]).await;
    let [(_, first), (_, second)] = seen.takes[..] else { panic!("{:?}", seen.takes) };
    assert!(second - first >= Duration::from_secs(1), "{:?}", second - first);
    assert!(seen.polls.iter().any(|poll| *poll > first && *poll < second), "no sign of life");
    assert_eq!(seen.started, ["of 1"]);
}
