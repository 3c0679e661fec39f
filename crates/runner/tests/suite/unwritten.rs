//! States that OpenTofu cannot write at the end of an apply, because their storage is away: the real runner with the
//! real OpenTofu, its backend `http`, and a small storage that goes and comes back.

use crate::server::{Home, Plane, Server, code};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use canyon_api::attempt::ResultStatus;
use canyon_domain::failure::{FailureClass, Phase};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Creates two resources, and waits for the file `go`.
const MODULE: &str = r#"
resource "terraform_data" "first" {}
resource "terraform_data" "second" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "echo began; while [ ! -e GO ]; do sleep 0.05; done" }
}
"#;

#[derive(Default)]
struct Kept {
    state: Vec<u8>,
    lock: Vec<u8>,
    is_away: bool,
    /// It takes each state, and its answer does not come back.
    swallows: bool,
    /// It is away whenever a lock should be released.
    keeps_locks: bool,
    pushes: usize,
}

type Shared = Arc<Mutex<Kept>>;

/// A storage that keeps one state and its lock.
struct Storage {
    kept: Shared,
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

async fn answer(State(kept): State<Shared>, method: Method, body: Bytes) -> Response {
    let mut kept = kept.lock().unwrap();
    if kept.is_away {
        return (StatusCode::SERVICE_UNAVAILABLE, "away").into_response();
    }
    match method.as_str() {
        "LOCK" if kept.lock.is_empty() => kept.lock = body.to_vec(),
        "LOCK" => return (StatusCode::LOCKED, kept.lock.clone()).into_response(),
        "UNLOCK" if kept.keeps_locks => {
            return (StatusCode::SERVICE_UNAVAILABLE, "away").into_response();
        }
        "UNLOCK" => kept.lock.clear(),
        "POST" => {
            kept.pushes += 1;
            kept.state = body.to_vec();
            if kept.swallows {
                return (StatusCode::BAD_REQUEST, "no").into_response();
            }
        }
        _ if kept.state.is_empty() => return StatusCode::NO_CONTENT.into_response(),
        _ => return kept.state.clone().into_response(),
    }
    StatusCode::OK.into_response()
}

impl Storage {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let (kept, address) = (Shared::default(), listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(kept.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { kept, address, _runtime: runtime }
    }

    /// Resources in the state that it keeps.
    fn resources(&self) -> usize {
        let state = self.kept.lock().unwrap().state.clone();
        let state: Value = serde_json::from_slice(&state).unwrap_or_default();
        state["resources"].as_array().map_or(0, Vec::len)
    }
}

/// A run that applies [`MODULE`] with a state kept in a storage.
struct World {
    home: Home,
    storage: Storage,
    server: Server,
    go: PathBuf,
}

fn world() -> World {
    let (home, storage) = (Home::new(), Storage::start());
    let go = home.folder.path().join("go");
    let module = MODULE.replace("GO", &go.display().to_string());
    let url = format!("http://{}", storage.address);
    let mut job = home.job(&module, &json!({ "stop_seconds": 8 }));
    job["backend"]["terraform"]["backend"] = json!({ "http": {
        "address": url, "lock_address": url, "unlock_address": url, "retry_max": 0,
    } });
    let server = Server::start(job);
    World { home, storage, server, go }
}

impl World {
    /// Applies until the storage is away and the runner has noticed; returns the runner.
    fn apply_without_storage(&self) -> std::process::Child {
        let runner = self.home.start(&self.server);
        self.server.wait_until("it applies", |plane| plane.log().contains("began"));
        self.storage.kept.lock().unwrap().is_away = true;
        fs::write(&self.go, "").unwrap();
        self.server.wait_until("it pushes in vain", |plane| {
            plane.log().contains("the state storage does not take the state yet")
        });
        runner
    }
}

#[test]
fn a_state_is_pushed_again_until_its_storage_is_back_and_the_own_lock_is_no_obstacle() {
    let world = world();
    let runner = world.apply_without_storage();
    let reports = world.server.plane().phases.len();
    world.server.wait_until("it lives", |plane| plane.phases.len() >= reports + 3);
    assert_eq!(world.server.plane().results.len(), 0, "it still tries");
    let unwritten = world.server.plane().unwritten.clone();
    let state = unwritten.expect("its death would be known to have left a state unwritten").state;
    assert_eq!(state.unwrap().resources, 2);
    assert!(!world.storage.kept.lock().unwrap().lock.is_empty(), "its apply could not free it");
    world.storage.kept.lock().unwrap().is_away = false;
    assert_eq!(code(runner), 1);
    let plane = world.server.plane();
    let result = plane.result();
    let message = &result.failure.as_ref().unwrap().message;
    assert!(message.contains("it was pushed afterwards"), "{message}");
    assert!(plane.log().contains("which this run has left"), "{}", plane.log());
    assert_eq!((world.storage.resources(), &result.unwritten), (2, &None), "{}", plane.log());
    let own: Vec<Value> =
        plane.events().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own = own
        .iter()
        .filter(|line| line["type"].as_str().is_some_and(|kind| kind.starts_with("canyon_")));
    let own: Vec<_> =
        own.map(|line| (line["type"].clone(), line["state"]["resources"].clone())).collect();
    let (unwritten, written) = ("canyon_state_unwritten", "canyon_state_written");
    assert_eq!(
        own,
        [(json!(unwritten), json!(2)), (json!(written), Value::Null)],
        "for a launcher"
    );
    let state = result.state.as_ref().unwrap();
    assert!(state.resources == 2 && !state.incomplete, "{state:?}");
    assert!(world.storage.kept.lock().unwrap().lock.is_empty(), "{}", plane.log());
    assert!(result.orphans.is_empty());
}

#[test]
fn a_state_that_stays_unwritten_until_the_run_must_end_is_reported_as_such() {
    let world = world();
    let runner = world.apply_without_storage();
    {
        let mut plane = world.server.plane();
        plane.stop = true;
        plane.stop_reason = Some(json!({ "class": "timeout", "message": "it took too long" }));
    }
    assert_eq!(code(runner), 1);
    let plane = world.server.plane();
    let result = plane.result();
    assert_eq!((result.status, result.phase), (ResultStatus::Failure, Some(Phase::Apply)));
    let failure = result.failure.as_ref().unwrap();
    assert!(failure.message.contains("the state storage does not"), "{failure:?}");
    assert!(failure.message.contains("nor pushed afterwards"), "{failure:?}");
    let unwritten = result.unwritten.as_ref().unwrap().state.as_ref().unwrap();
    assert_eq!(unwritten.resources, 2);
    assert!(unwritten.digest.is_some() && result.state.is_none(), "{result:?}");
    let orphans: Vec<_> = result.orphans.iter().map(|orphan| orphan.address.as_str()).collect();
    assert_eq!(orphans, ["terraform_data.first", "terraform_data.second"]);
    assert_eq!(world.storage.resources(), 0);
}

#[test]
fn a_canyon_of_an_earlier_version_gets_the_result_without_what_it_does_not_know() {
    let world = world();
    world.server.plane().knows_no_unwritten = true;
    let runner = world.apply_without_storage();
    let reports = world.server.plane().phases.len();
    world.server.wait_until("it lives", |plane| plane.phases.len() >= reports + 3);
    world.server.plane().stop = true;
    assert_eq!(code(runner), 1);
    let plane = world.server.plane();
    assert_eq!((plane.result().unwritten.as_ref(), plane.result().orphans.len()), (None, 2));
}

#[test]
fn a_storage_that_goes_away_at_the_end_of_a_plan_is_an_outage_as_at_its_begin() {
    let world = world();
    world.storage.kept.lock().unwrap().keeps_locks = true;
    assert_eq!(code(world.home.start(&world.server)), 1);
    let plane = world.server.plane();
    let result = plane.result();
    let failure = result.failure.as_ref().unwrap();
    assert!(plane.log().contains("Error releasing the state lock"), "{}", plane.log());
    assert_eq!(failure.class, FailureClass::Unreachable, "{failure:?}");
    assert_eq!((result.phase, world.storage.resources()), (Some(Phase::Plan), 0));
}

#[test]
fn a_storage_that_goes_away_at_the_end_of_an_apply_hides_nothing_that_was_applied() {
    let world = world();
    let runner = world.home.start(&world.server);
    world.server.wait_until("it applies", |plane| plane.log().contains("began"));
    world.storage.kept.lock().unwrap().keeps_locks = true;
    fs::write(&world.go, "").unwrap();
    assert_eq!(code(runner), 1);
    let plane = world.server.plane();
    let result = plane.result();
    let failure = result.failure.as_ref().unwrap();
    assert!(failure.message.contains("Error releasing the state lock"), "{failure:?}");
    assert_eq!(result.phase, Some(Phase::Apply), "a run that began to apply is not repeated");
    let state = result.state.as_ref().unwrap();
    assert_eq!((state.resources, state.incomplete), (2, false), "{state:?}");
    assert_eq!(result.tf_resource_counts.unwrap().num_resources_added, 2);
    assert!(result.orphans.is_empty() && result.unwritten.is_none(), "{result:?}");
}

#[test]
fn an_attempt_that_is_over_still_writes_its_state() {
    let world = world();
    let runner = world.apply_without_storage();
    world.server.plane().over = true;
    let refusals = world.server.plane().phases.len();
    world.server.wait_until("it learns that", |plane| plane.late_reports > 0);
    world.storage.kept.lock().unwrap().is_away = false;
    assert_ne!(code(runner), 0);
    assert_eq!(world.storage.resources(), 2, "{}", world.server.plane().log());
    let plane = world.server.plane();
    assert_eq!((plane.phases.len(), plane.results.len()), (refusals, 0));
}

#[test]
fn a_push_whose_answer_is_lost_has_written_the_state() {
    let world = world();
    let runner = world.apply_without_storage();
    {
        let mut kept = world.storage.kept.lock().unwrap();
        (kept.is_away, kept.swallows) = (false, true);
    }
    assert_eq!(code(runner), 1);
    let plane = world.server.plane();
    assert_eq!(plane.result().unwritten, None, "{}", plane.log());
    assert_eq!(plane.result().state.as_ref().unwrap().resources, 2);
}

const BY: &str = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff9999";

/// A run after one that could not write `unwritten`; `expected` was known before.
fn next(home: &Home, expected: &Value, unwritten: &Value) -> Server {
    let state = json!({
        "place": "/states/a", "uncertain": true, "expected": expected,
        "unwritten": { "by": BY, "facts": unwritten },
    });
    let module = "resource \"terraform_data\" \"a\" {}\n";
    let server = Server::start(home.job(module, &json!({ "state": state })));
    code(home.start(&server));
    server
}

fn refused(plane: &Plane) -> String {
    let result = plane.result();
    let failure = result.failure.clone().unwrap();
    assert_eq!((failure.class, result.phase), (FailureClass::Config, Some(Phase::Init)));
    assert!(result.tf_resource_counts.is_none() && result.unwritten.is_none());
    failure.message
}

#[test]
fn a_run_after_a_state_that_was_not_written_ends_before_its_plan_unless_it_finds_that_state() {
    let home = Home::new();
    let facts = |state: &canyon_api::attempt::StateReportBody| {
        json!({
            "lineage": state.lineage, "serial": state.serial, "resources": state.resources,
            "digest": state.digest,
        })
    };
    let unwritten = json!({ "lineage": "a", "serial": 1, "resources": 1, "digest": "another" });
    // None was known, and none is there.
    let message = refused(&next(&home, &Value::Null, &unwritten).plane());
    for part in [BY, "there is no state", "--accept-state", "Import its orphans"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    let server = Server::start(home.job("resource \"terraform_data\" \"a\" {}\n", &json!({})));
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let there = facts(server.plane().result().state.as_ref().unwrap());
    let with = |member: &str, value: Value| {
        let mut changed = there.clone();
        changed[member] = value;
        changed
    };
    let serial = there["serial"].as_u64().unwrap();
    let newer = with("serial", json!(serial + 1));
    // What was known before, and a version that is newer than that and is not what was to be written.
    for expected in [there.clone(), with("serial", json!(serial - 1)), Value::Null] {
        for unwritten in [with("digest", json!("another")), Value::Null] {
            refused(&next(&home, &expected, &unwritten).plane());
        }
    }
    refused(&next(&home, &there, &newer).plane());
    assert_eq!(home.resources(), ["a"]);
    // It has arrived after all.
    for expected in [with("serial", json!(serial - 1)), Value::Null] {
        let server = next(&home, &expected, &there);
        let plane = server.plane();
        assert_eq!(plane.result().status, ResultStatus::Success, "{}", plane.log());
        assert_eq!(plane.result().tf_resource_counts.unwrap().num_resources_added, 0);
    }
}

#[test]
fn a_run_after_one_of_which_nothing_is_known_plans_only_on_a_state_that_was_written_since() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {}\n";
    let next = |expected: &Value, unsalvaged: bool| {
        let unfinished = json!({ "by": BY, "unsalvaged": unsalvaged });
        let state = json!({
            "place": "/states/a", "uncertain": true, "expected": expected, "unfinished": unfinished,
        });
        let server = Server::start(home.job(module, &json!({ "state": state })));
        code(home.start(&server));
        server
    };
    // There was no state, and there is none.
    let message = refused(&next(&Value::Null, true).plane());
    for part in [BY, "no state was written", "deploy again when it does", "--accept-state"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    let first = next(&Value::Null, false);
    let state = first.plane().result().state.clone().unwrap();
    let facts = |serial| json!({ "lineage": state.lineage, "serial": serial, "resources": 1 });
    refused(&next(&facts(state.serial), true).plane());
    for (serial, unsalvaged, warns) in
        [(state.serial, false, true), (state.serial - 1, true, false)]
    {
        let server = next(&facts(serial), unsalvaged);
        let plane = server.plane();
        assert_eq!(plane.result().status, ResultStatus::Success, "{}", plane.log());
        let warning = "ended without a result, and the state is the one from before it";
        assert_eq!(plane.log().contains(warning), warns, "{}", plane.log());
    }
}
