//! `deploy`, and the other commands for a deployment.

use crate::canned_server::{Answer, CannedServer, done, empty, html, json, stream, text};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};
use std::fs;
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const ID: &str = "01970000-0000-7000-8000-000000000001";
pub(crate) const GOOD: &[u8] = include_bytes!("../fixtures/events-ok.jsonl");
const BAD: &[u8] = include_bytes!("../fixtures/events-failed.jsonl");
const FAILED_PLAN: &[u8] = include_bytes!("../fixtures/events-plan-failed.jsonl");

pub(crate) fn deployment(status: &str, more: &Value) -> Value {
    let mut deployment = value!({
        "org_id": "local", "project_id": "shop", "env_id": "dev", "id": ID,
        "created_at": "2026-01-01T00:00:00Z", "created_by": ID, "mode": "deploy",
        "plan_only": false, "status": status, "status_message": "", "runner_id": "laptop",
        "metrics": {"num_workloads": 0, "num_resource_nodes": 0},
    });
    for (name, member) in more.as_object().unwrap() {
        deployment[name] = member.clone();
    }
    deployment
}

pub(crate) fn succeeded() -> Value {
    let metrics = value!({
        "num_workloads": 0, "num_resource_nodes": 0, "num_tf_resources": 3,
        "num_tf_resources_added": 3, "num_tf_resources_removed": 0, "num_tf_resources_changed": 0,
    });
    deployment("succeeded", &value!({"metrics": metrics, "completed_at": "2026-01-01T00:01:00Z"}))
}

macro_rules! path {
    ($method:literal) => {
        concat!($method, " /deployments/01970000-0000-7000-8000-000000000001")
    };
    ($method:literal, $end:literal) => {
        concat!($method, " /deployments/01970000-0000-7000-8000-000000000001", $end)
    };
}

/// A server on which one deployment runs to `end`.
pub(crate) fn server(
    end: &Value,
    events: &[u8],
    more: Vec<(&'static str, Answer)>,
) -> CannedServer {
    let defaults = [
        ("POST /deployments", json(201, &deployment("queued", &value!({})))),
        (path!("GET"), json(200, end)),
        (path!("GET", "/actions/wait-for-complete"), json(200, end)),
        (path!("GET", "/logs"), stream(events)),
        (path!("GET", "/orphans"), json(200, &value!([]))),
    ];
    let mut answers = more;
    for (what, answer) in defaults {
        if !answers.iter().any(|(given, _)| *given == what) {
            answers.push((what, answer));
        }
    }
    CannedServer::start(answers)
}

fn module() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("net")).unwrap();
    fs::write(folder.path().join("net/main.tf"), "").unwrap();
    folder
}

/// Removes the progress lines: they come from three polls, in no fixed order.
fn without_progress(printed: &str) -> String {
    let progress = ["queued", "launching", "starting", "succeeded", "failed", "  terraform_data"];
    let kept = printed.lines().filter(|line| !progress.iter().any(|start| line.starts_with(start)));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_folder_is_uploaded_once_and_deployed() {
    let outputs = value!({
        "url": {"sensitive": false, "value": "https://x"}, "password": {"sensitive": true},
    });
    let folder = module();
    let found = server(&succeeded(), GOOD, vec![(path!("GET", "/outputs"), json(200, &outputs))]);
    // The digest is not known beforehand: no archive is found, so it is uploaded, which answers 404.
    let printed = Invocation::new(folder.path(), "deploy shop dev --module ./net").at(&found).run();
    let requests = found.requests();
    let digest = requests[0].what.strip_prefix("GET /archives/").unwrap().to_owned();
    assert_eq!(requests[1].what, format!("PUT /archives/{digest}"));
    assert!(printed.starts_with("exit: 7\n"), "{printed}");

    let is_there: &'static str = format!("GET /archives/{digest}").leak();
    let outputs = (path!("GET", "/outputs"), json(200, &outputs));
    let found = server(&succeeded(), GOOD, vec![outputs, (is_there, done())]);
    let call = "deploy shop dev --module ./net --var n=2 --var tags=[a]";
    let printed = Invocation::new(folder.path(), call).at(&found).run();
    insta::assert_snapshot!(without_progress(&printed));
    let sent = value!({
        "mode": "deploy", "project_id": "shop", "env_id": "dev",
        "module": {"source": format!("sha256:{digest}"), "inputs": {"n": "2", "tags": ["a"]}},
    });
    assert_eq!(found.bodies("POST /deployments"), [sent]);
    assert!(!found.requests().iter().any(|request| request.what.starts_with("PUT")));
}

#[test]
fn a_failure_reports_its_class_a_hint_and_the_orphans() {
    let attempt = value!({
        "number": 1, "status": "failed", "phase": "apply", "launched_at": "2026-01-01T00:00:00Z",
        "failure": {"class": "user", "message": "local-exec provisioner error in `terraform_data.bad`"},
    });
    let metrics =
        value!({"num_workloads": 0, "num_resource_nodes": 0, "num_tf_resources_orphaned": 1});
    let more = value!({"attempts": [attempt], "metrics": metrics});
    let orphans = json(200, &value!([{"address": "aws_s3_bucket.a", "id": "b-1"}]));
    let server =
        server(&deployment("failed", &more), BAD, vec![(path!("GET", "/orphans"), orphans)]);
    let folder = tempfile::tempdir().unwrap();
    let call = Invocation::new(folder.path(), "deploy shop dev --module - --out json");
    let printed = call.stdin("resource {}").at(&server).run();
    let module = &server.bodies("POST /deployments")[0]["module"];
    assert_eq!(module, &value!({"source": "inline", "source_code": "resource {}"}));
    let stderr = printed.split_once("--- stderr\n").unwrap().1;
    insta::assert_snapshot!(without_progress(stderr));
    assert!(printed.starts_with("exit: 1\n"), "{printed}");
}

#[test]
fn unknown_counts_of_a_failed_run_are_not_shown_as_zero() {
    let folder = tempfile::tempdir().unwrap();
    let attempt = |phase: &str, class: &str, message: &str| {
        value!({
            "number": 1, "status": "failed", "phase": phase, "launched_at": "2026-01-01T00:00:00Z",
            "failure": {"class": class, "message": message},
        })
    };
    let counted = value!({
        "num_workloads": 0, "num_resource_nodes": 0, "num_tf_resources_added": 1,
        "num_tf_resources_removed": 0, "num_tf_resources_changed": 0,
    });
    let nothing = value!({"num_workloads": 0, "num_resource_nodes": 0});
    let deadline = "the run took longer than `timeouts.run_seconds` (5) and was stopped";
    let ends = [
        (attempt("plan", "user", "Resource precondition failed: no"), &nothing, FAILED_PLAN),
        (attempt("init", "unreachable", "no such host"), &nothing, b"".as_slice()),
        (attempt("apply", "lost", "the job vanished"), &nothing, b""),
        (attempt("apply", "timeout", deadline), &counted, b""),
    ];
    let printed = ends.map(|(attempt, metrics, events)| {
        let end = deployment("failed", &value!({"attempts": [attempt], "metrics": metrics}));
        let server = server(&end, events, vec![]);
        let call = Invocation::new(folder.path(), "deploy shop dev --module -");
        without_progress(&call.stdin("# text").at(&server).run())
    });
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn numbers_of_outputs_are_printed_with_every_digit() {
    const FRACTION: &str = "0.1000000000000000055511151231257827021181583404541015625";
    let outputs = format!(
        r#"{{"all": {{"sensitive": false, "value": {{"a": [9007199254740993, 18446744073709551617],
            "b": {FRACTION}, "c": "18446744073709551617"}}}},
            "huge": {{"sensitive": false, "value": 1e400}}, "lost": {{"sensitive": false}}}}"#
    );
    let server = server(&succeeded(), GOOD, vec![(path!("GET", "/outputs"), text(200, &outputs))]);
    let folder = tempfile::tempdir().unwrap();
    let calls = [
        "outputs 01970000-0000-7000-8000-000000000001",
        "outputs 01970000-0000-7000-8000-000000000001 all",
        "outputs 01970000-0000-7000-8000-000000000001 huge",
        "outputs 01970000-0000-7000-8000-000000000001 lost",
        "outputs 01970000-0000-7000-8000-000000000001 --out yaml",
        "outputs 01970000-0000-7000-8000-000000000001 all --out json",
    ];
    let printed = calls.map(|call| Invocation::new(folder.path(), call).at(&server).run());
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn numbers_of_variables_are_sent_with_every_digit() {
    let server = server(&succeeded(), GOOD, vec![]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.tfvars.json"), r#"{"a": 18446744073709551617, "b": 1e400}"#)
        .unwrap();
    let call = "deploy shop dev --module - --no-wait --var-file a.tfvars.json --var c=[0.10,1]";
    let printed = Invocation::new(folder.path(), call).stdin("# text").at(&server).run();
    assert!(printed.starts_with("exit: 0\n"), "{printed}");
    let requests = server.requests();
    let sent = requests.iter().find(|request| request.what == "POST /deployments").unwrap();
    let sent = String::from_utf8(sent.body.to_vec()).unwrap();
    let expected = r#""inputs":{"a":18446744073709551617,"b":1e400,"c":[0.10,1]}"#;
    assert!(sent.contains(expected), "{sent}");
}

#[test]
fn a_lost_answer_is_retried_with_the_same_key() {
    let lost = ("POST /deployments", empty(502));
    let made = ("POST /deployments", json(201, &deployment("queued", &value!({}))));
    let server = server(&succeeded(), GOOD, vec![lost.clone(), lost, made]);
    let folder = tempfile::tempdir().unwrap();
    let call = "deploy shop dev --module git::https://h/r.git//sub?ref=v1 --no-wait";
    insta::assert_snapshot!(Invocation::new(folder.path(), call).at(&server).run());
    let keys: Vec<_> = server.requests().into_iter().map(|request| request.key.unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 36), "{keys:?}");
}

/// Statuses that a gateway may answer instead of Canyon, for any step of a deployment.
const FOREIGN: [u16; 9] = [200, 302, 401, 403, 404, 408, 409, 413, 500];

#[test]
fn a_gateways_answer_changes_nothing_about_a_deployment() {
    let outputs = value!({"url": {"sensitive": false, "value": "https://x"}});
    for status in FOREIGN {
        let folder = module();
        let steps = [
            ("POST /deployments", json(201, &deployment("queued", &value!({})))),
            (path!("GET"), json(200, &succeeded())),
            (path!("GET", "/actions/wait-for-complete"), json(200, &succeeded())),
            (path!("GET", "/logs"), stream(GOOD)),
            (path!("GET", "/outputs"), json(200, &outputs)),
        ];
        let answers =
            steps.into_iter().flat_map(|(step, good)| [(step, html(status)), (step, good)]);
        let server = CannedServer::start(answers);
        let call = "deploy shop dev --module git::https://h/r.git";
        let printed = Invocation::new(folder.path(), call).at(&server).run();
        assert!(printed.starts_with("exit: 0\n"), "{status}: {printed}");
        assert!(
            printed.contains("https://x") && !printed.contains("Blocked"),
            "{status}: {printed}"
        );
        let logs = "logs 01970000-0000-7000-8000-000000000001";
        let answers =
            [(path!("GET", "/logs"), html(status)), (path!("GET", "/logs"), stream(b"plan\n"))];
        let server = CannedServer::start(answers);
        let printed = Invocation::new(folder.path(), logs).at(&server).run();
        assert!(printed.starts_with("exit: 0\n--- stdout\nplan\n"), "{status}: {printed}");
    }
}

#[test]
fn a_gateways_answer_is_not_taken_for_an_upload() {
    let folder = module();
    let probe = CannedServer::start([]);
    let call = "deploy shop dev --module ./net --no-wait";
    Invocation::new(folder.path(), call).at(&probe).run();
    let digest = probe.requests()[0].what.strip_prefix("GET /archives/").unwrap().to_owned();
    let step = |method: &str| -> &'static str { format!("{method} /archives/{digest}").leak() };
    let missing = json(404, &value!({"error": "API-404", "message": "no such archive"}));
    for status in FOREIGN {
        let answers = vec![
            (step("GET"), html(status)),
            (step("GET"), missing.clone()),
            (step("PUT"), html(status)),
            (step("PUT"), done()),
        ];
        let server = server(&succeeded(), GOOD, answers);
        let printed = Invocation::new(folder.path(), call).at(&server).run();
        assert!(printed.starts_with("exit: 0\n"), "{status}: {printed}");
        let requests: Vec<_> = server.requests().into_iter().map(|request| request.what).collect();
        let expected = [step("GET"), step("GET"), step("PUT"), step("PUT"), "POST /deployments"];
        assert_eq!(requests, expected, "{status}: {printed}");
    }
}

#[test]
fn an_environment_is_destroyed_without_naming_a_module() {
    let server = server(&succeeded(), GOOD, vec![]);
    let folder = tempfile::tempdir().unwrap();
    let call = "deploy shop dev --destroy --plan-only --no-wait --idempotency-key k1";
    let printed = Invocation::new(folder.path(), call).at(&server).run();
    assert!(printed.starts_with("exit: 0\n"), "{printed}");
    let sent =
        value!({"mode": "destroy", "project_id": "shop", "env_id": "dev", "plan_only": true});
    assert_eq!(server.bodies("POST /deployments"), [sent]);
    assert_eq!(server.requests()[0].key.as_deref(), Some("k1"));
}

/// A server on which a deployment waits for another one.
fn waiting_server() -> CannedServer {
    let waiting = value!({
        "reason": "another deployment of this environment runs",
        "since": "2026-01-01T00:00:00Z", "blocked_by": "01970000-0000-7000-8000-000000000002",
    });
    let queued = deployment("queued", &value!({"waiting": waiting}));
    server(
        &queued,
        b"",
        vec![(
            path!("GET", "/actions/wait-for-complete"),
            json(408, &value!({"error": "API-408", "message": "not yet"})),
        )],
    )
}

#[test]
fn a_wait_ends_at_the_timeout_and_reports_why_the_deployment_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = waiting_server();
    let call = "deploy shop dev --destroy --yes --timeout 3";
    insta::assert_snapshot!(Invocation::new(folder.path(), call).at(&server).run());
}

#[test]
fn an_interrupt_leaves_the_deployment_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = waiting_server();
    let mut child =
        Invocation::new(folder.path(), "deploy shop dev --destroy --yes").at(&server).spawn();
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.requests().len() < 4 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let hint = format!("or stop it with `canyon cancel {ID}`");
    assert!(stderr.contains("continues") && stderr.contains(&hint), "{stderr}");
    assert!(!server.requests().iter().any(|request| request.what.ends_with("cancel")));
}

#[test]
fn logs_and_outputs_are_printed_unchanged() {
    let outputs = value!({
        "url": {"sensitive": false, "value": "https://x"},
        "ports": {"sensitive": false, "value": [80]}, "password": {"sensitive": true},
    });
    let server = server(
        &succeeded(),
        b"==> plan\nno changes\n",
        vec![(path!("GET", "/outputs"), json(200, &outputs))],
    );
    let folder = tempfile::tempdir().unwrap();
    let calls = [
        "logs 01970000-0000-7000-8000-000000000001 -f",
        "outputs 01970000-0000-7000-8000-000000000001",
        "outputs 01970000-0000-7000-8000-000000000001 url",
        "outputs 01970000-0000-7000-8000-000000000001 ports",
        "outputs 01970000-0000-7000-8000-000000000001 password",
        "outputs 01970000-0000-7000-8000-000000000001 urk",
    ];
    let printed = calls.map(|call| Invocation::new(folder.path(), call).at(&server).run());
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn encrypted_logs_and_outputs_are_decrypted_with_the_key() {
    use age::secrecy::ExposeSecret;
    use base64::Engine;
    let key = age::x25519::Identity::generate();
    let seal = |text: &[u8]| age::encrypt(&key.to_public(), text).unwrap();
    let log: Vec<u8> = [&b"one\n"[..], b"two\n"]
        .iter()
        .flat_map(|part| canyon_api::sealed_log::encode_frame(&seal(part)))
        .collect();
    let sealed = seal(br#"{"password": {"sensitive": true, "value": "hunter2"}}"#);
    let raw = base64::prelude::BASE64_STANDARD.encode(sealed);
    let outputs = (path!("GET", "/encrypted-outputs"), json(200, &value!({"raw": raw})));
    let server = server(&succeeded(), &log, vec![outputs]);
    let folder = tempfile::tempdir().unwrap();
    let text = format!("# created: today\n{}\n", key.to_string().expose_secret());
    fs::write(folder.path().join("key.txt"), text).unwrap();
    let printed = [
        "logs 01970000-0000-7000-8000-000000000001 --identity key.txt",
        "outputs 01970000-0000-7000-8000-000000000001 password --identity key.txt",
    ]
    .map(|call| Invocation::new(folder.path(), call).at(&server).run());
    assert!(printed[0].contains("one\ntwo\n"), "{}", printed[0]);
    assert!(printed[1].contains("hunter2\n"), "{}", printed[1]);
}
