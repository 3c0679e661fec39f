//! A small control plane for tests of the runner.

pub(crate) mod container;
pub(crate) mod plane;
mod proxy;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware;
use axum::response::{Html, IntoResponse, Json, Redirect, Response};
use axum::routing::{get, post, put};
use canyon_api::attempt::{DeploymentResultsUpdateBody, ReportBody, Stream};
use canyon_domain::failure::Phase;
pub(crate) use plane::Plane;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) const DEPLOYMENT: &str = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000";
pub(crate) const TOKEN: &str = "attempt-token-0123456789";
pub(crate) const CODE: &str = "claim-code-0123456789";

type Shared = Arc<Mutex<Plane>>;

/// A control plane that can stop and start again at the same address.
pub(crate) struct Server {
    pub(crate) plane: Shared,
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    pub(crate) fn start(job: Value) -> Self {
        let plane = Arc::new(Mutex::new(Plane { job, ..Plane::default() }));
        let address = "127.0.0.1:0".parse().unwrap();
        let mut server = Self { plane, address, runtime: None };
        server.resume();
        server
    }

    pub(crate) fn plane(&self) -> MutexGuard<'_, Plane> {
        self.plane.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn resume(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(self.address)).unwrap();
        self.address = listener.local_addr().unwrap();
        let base = format!("/orgs/local/deployments/{DEPLOYMENT}");
        let router = Router::new()
            .route(&format!("{base}/attempts/{{number}}/claim"), post(claim))
            .route(&format!("{base}/attempts/{{number}}/report"), post(report))
            .route(&format!("{base}/attempts/{{number}}/actions/issue-token"), post(issue_token))
            .route(&format!("{base}/attempts/{{number}}/plan/{{piece}}"), put(keep).get(piece))
            .route(&format!("{base}/results"), post(results))
            .route(&format!("{base}/bundle"), get(bundle))
            .route("/portal", get(async || Html("<html>Sign in</html>")))
            .layer(middleware::from_fn(proxy::name_attempt))
            .layer(middleware::from_fn_with_state(self.plane.clone(), proxy::answer_instead))
            .with_state(self.plane.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        self.runtime = Some(runtime);
    }

    /// Stops: open connections break, new ones are refused.
    pub(crate) fn die(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    pub(crate) fn wait_until(&self, what: &str, test: impl Fn(&Plane) -> bool) {
        let begun = Instant::now();
        while !test(&self.plane()) {
            let is_late = begun.elapsed() >= Duration::from_secs(20);
            assert!(!is_late, "never: {what}\n{}", self.plane().log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn bundle(State(plane): State<Shared>) -> Response {
    let plane = plane.lock().unwrap();
    if let Some(url) = &plane.archive_url {
        return Redirect::temporary(url).into_response();
    }
    let archive = plane.archive.clone();
    ([(CONTENT_TYPE, "application/x-gzip")], archive).into_response()
}

async fn claim(
    State(plane): State<Shared>,
    Path(_): Path<u32>,
    Json(body): Json<Value>,
) -> Response {
    let mut plane = plane.lock().unwrap();
    plane.claims += 1;
    let claimant = body["claimant"].as_str().unwrap().to_owned();
    if plane.over || plane.claimant.as_ref().is_some_and(|winner| *winner != claimant) {
        return refused(StatusCode::CONFLICT);
    }
    plane.claimant = Some(claimant);
    let job = plane.job_text.clone().unwrap_or_else(|| plane.job.to_string());
    let offsets = plane.offsets();
    // One of an earlier version does not have the field.
    let format = if plane.knows_no_unwritten { "" } else { r#", "report_format": 5"# };
    let text = format!(
        r#"{{"token": "{TOKEN}", "job": {job}, "offsets": {offsets}, "report_seconds": 1{format}}}"#
    );
    ([("content-type", "application/json")], text).into_response()
}

async fn report(
    State(plane): State<Shared>,
    Path(_): Path<u32>,
    Json(body): Json<ReportBody>,
) -> Response {
    let mut plane = plane.lock().unwrap();
    if plane.over {
        plane.late_reports += 1;
        return refused(StatusCode::CONFLICT);
    }
    let size: usize = body.chunks.iter().map(|chunk| chunk.data.len()).sum();
    if let Some((_, status)) = plane.largest_report.filter(|(most, _)| size > *most) {
        return (status, "<html>no</html>").into_response();
    }
    if plane.stale > 0 && body.phase == Phase::Apply {
        plane.stale -= 1;
        let none = json!({"log": 0, "events": 0});
        return Json(json!({"phase": "plan", "stop": false, "offsets": none})).into_response();
    }
    if plane.knows_no_unwritten && (body.unwritten.is_some() || body.fetched.is_some()) {
        return refused(StatusCode::BAD_REQUEST);
    }
    if body.phase == Phase::Apply {
        plane.fetched_before_apply.clone_from(&body.fetched);
    }
    plane.take(&body.chunks);
    plane.phases.push(body.phase);
    plane.unwritten = body.unwritten.clone().or(plane.unwritten.take());
    if plane.failures > 0 {
        plane.failures -= 1;
        return refused(StatusCode::SERVICE_UNAVAILABLE);
    }
    // An answer says nothing about a stream of which the report has no piece.
    let mut offsets = plane.offsets();
    for stream in [Stream::Log, Stream::Events] {
        if body.chunks.iter().all(|chunk| chunk.stream != stream) {
            offsets[stream.as_str()] = json!(0);
        }
    }
    let phase = body.phase;
    let mut answer = json!({"phase": phase, "stop": plane.stop, "offsets": offsets});
    if let Some(reason) = &plane.stop_reason {
        answer["stop_reason"] = reason.clone();
    }
    Json(answer).into_response()
}

async fn issue_token(
    State(plane): State<Shared>,
    Path(_): Path<u32>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let mut plane = plane.lock().unwrap();
    let good = headers[AUTHORIZATION] == format!("Bearer {TOKEN}");
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    let (audience, phase) = (text("audience"), text("phase"));
    if !good || plane.over || phase == "apply" && !plane.phases.contains(&Phase::Apply) {
        return refused(StatusCode::CONFLICT);
    }
    let of_apply = plane.no_apply_tokens.filter(|_| phase == "apply");
    if let Some(status) = plane.no_tokens.or(of_apply) {
        return refused(StatusCode::from_u16(status).unwrap());
    }
    let number = plane.tokens.len();
    let token = format!("header.{phase}-{number}.signature-{number:030}");
    plane.tokens.push((audience, phase, token.clone()));
    let life = if plane.token_life == 0 { 600 } else { plane.token_life };
    let answer = json!({
        "audience": body["audience"], "phase": body["phase"],
        "token": token, "expires_in": life, "expires_at": "2026-01-01T00:00:00Z",
    });
    Json(answer).into_response()
}

async fn results(
    State(plane): State<Shared>,
    Json(body): Json<DeploymentResultsUpdateBody>,
) -> Response {
    let mut plane = plane.lock().unwrap();
    if plane.over {
        return refused(StatusCode::CONFLICT);
    }
    if plane.failures > 0 {
        plane.failures -= 1;
        return refused(StatusCode::SERVICE_UNAVAILABLE);
    }
    if plane.takes_no_outputs && !body.plain_outputs.is_empty() {
        return refused(StatusCode::BAD_REQUEST);
    }
    if plane.knows_no_unwritten && (body.unwritten.is_some() || body.fetched.is_some()) {
        return refused(StatusCode::BAD_REQUEST);
    }
    plane.take(&body.chunks);
    plane.results.push(body);
    plane.over = true;
    (StatusCode::NO_CONTENT, [("canyon-result-of", format!("{DEPLOYMENT}/1"))]).into_response()
}

async fn keep(
    State(plane): State<Shared>,
    Path((_, piece)): Path<(u32, String)>,
    sealed: Bytes,
) -> Response {
    plane.lock().unwrap().pieces.insert(piece, sealed.to_vec());
    StatusCode::NO_CONTENT.into_response()
}

async fn piece(State(plane): State<Shared>, Path((_, piece)): Path<(u32, String)>) -> Response {
    match plane.lock().unwrap().pieces.get(&piece) {
        Some(sealed) => sealed.clone().into_response(),
        None => refused(StatusCode::NOT_FOUND),
    }
}

fn refused(status: StatusCode) -> Response {
    let error = format!("API-{}", status.as_u16());
    (status, Json(json!({"error": error, "message": "refused by the test"}))).into_response()
}

/// An environment: a folder for its state, and one for each job.
pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state.tfstate")
    }

    /// The addresses in the state.
    pub(crate) fn resources(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.state()).unwrap_or_default();
        // OpenTofu creates the file to lock it, and writes to it when it has something to save.
        let state: Value =
            if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        let resources = state["resources"].as_array().cloned().unwrap_or_default();
        let instances = |r: &Value| r["instances"].as_array().map_or(0, Vec::len);
        resources
            .iter()
            .flat_map(|r| vec![r["name"].as_str().unwrap().to_owned(); instances(r)])
            .collect()
    }

    /// A job that runs `code`, with `changes` on top.
    pub(crate) fn job(&self, code: &str, changes: &Value) -> Value {
        let mut job = json!({
            "deployment_id": DEPLOYMENT, "attempt": 1, "fence": 1, "project_id": "shop",
            "env_id": "development", "env_uuid": "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001",
            "mode": "deploy", "plan_only": false, "executable": "tofu", "stop_seconds": 20,
            "backend": {"terraform": {"backend": {"local": {"path": self.state()}}}},
            "bundle": {"module": {"source": "inline", "source_code": code, "inputs": {}}},
        });
        merge(&mut job, changes);
        job
    }

    /// Starts the runner in a new folder.
    pub(crate) fn start(&self, server: &Server) -> Child {
        self.command(server).spawn().unwrap()
    }

    /// The runner in a new folder.
    pub(crate) fn command(&self, server: &Server) -> Command {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        let tofu = std::env::var("CANYON_TEST_TOFU").expect(
            "set CANYON_TEST_TOFU to the path of OpenTofu's `tofu`; scripts/setup installs it",
        );
        let bin = folder.join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(tofu, bin.join("tofu")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_canyon-runner"));
        command
            .env_clear()
            .env("CANYON_API_URL", server.url())
            .env("CANYON_ORG", "local")
            .env("CANYON_DEPLOYMENT_ID", DEPLOYMENT)
            .env("CANYON_ATTEMPT", "1")
            .env("CANYON_CLAIM_CODE", CODE)
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", &folder)
            .current_dir(&folder)
            .stdin(Stdio::null());
        command
    }
}

fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

pub(crate) fn code(mut runner: Child) -> i32 {
    runner.wait().unwrap().code().unwrap()
}
