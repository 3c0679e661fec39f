//! `canyon status`, and the filter of results.

use crate::canned_server::{Answer, CannedServer, json};
use crate::deployments::{list, of_id, run};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};
use std::io::{BufRead, BufReader};

const RUNNING: &str = "01970000-0000-7000-8000-00000000000a";
const WAITING: &str = "01970000-0000-7000-8000-00000000000b";

/// A time so far ahead that no test machine reaches it, for failures that count as late.
const LATE: &str = "2999-01-01T00:00:00Z";

fn running() -> Value {
    of_id(RUNNING, "running", &value!({"created_at": LATE}))
}

fn waiting(reason: &str) -> Value {
    let waiting = value!({"code": "agent", "reason": reason, "since": LATE});
    of_id(
        WAITING,
        "queued",
        &value!({"created_at": LATE, "env_id": "prod", "plan_only": true, "waiting": waiting}),
    )
}

fn failed(number: u8, at: &str) -> Value {
    let id = format!("01970000-0000-7000-8000-00000000001{number}");
    let mut failed =
        of_id(&id, "failed", &value!({"created_at": at, "status_message": "the provider\nfailed"}));
    failed["completed_at"] = at.into();
    failed
}

/// A server whose lists leave out what single reads have, as the API does.
fn server(reasons: &[&str], lists: Vec<Answer>) -> CannedServer {
    let mut whole = running();
    whole["attempts"] = value!([{
        "number": 1, "status": "running", "phase": "apply", "launched_at": LATE,
    }]);
    let waits = reasons.iter().map(|reason| {
        ("GET /deployments/01970000-0000-7000-8000-00000000000b", json(200, &waiting(reason)))
    });
    let running = ("GET /deployments/01970000-0000-7000-8000-00000000000a", json(200, &whole));
    let lists = lists.into_iter().map(|list| ("GET /deployments", list));
    CannedServer::start(lists.chain(waits).chain([running]).collect::<Vec<_>>())
}

fn queued() -> Value {
    let mut summary = waiting("");
    summary.as_object_mut().unwrap().remove("waiting");
    summary
}

#[test]
fn the_status_shows_what_runs_what_waits_and_why_and_what_failed_lately() {
    let all = [queued(), running(), failed(1, LATE), failed(2, "2026-01-01T00:00:00Z")];
    let server = server(&["no agent is connected"], vec![list(&all)]);
    let calls = ["status", "status -o json", "status shop prod --jq .waiting[].waiting.reason"];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
    let requests = server.requests();
    assert_eq!(requests[0].what, "GET /deployments?per_page=100");
    assert!(
        requests
            .iter()
            .any(|r| r.what == "GET /deployments?project_id=shop&env_id=prod&per_page=100")
    );
    assert!(requests.iter().all(|request| request.what.starts_with("GET ")));
}

#[test]
fn an_idle_organization_has_an_empty_status() {
    let server = CannedServer::start([("GET /deployments", list(&[]))]);
    let expected = "exit: 0\n--- stdout\nrunning: 0\n\nwaiting: 0\n\nfailed in the last 24 hours: 0\n--- stderr\n";
    assert_eq!(run(&server, "status"), expected);
}

/// The first `count` lines of a watch, which has no end of its own.
pub(crate) fn watch(server: &CannedServer, call: &str, count: usize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Invocation::new(folder.path(), call).at(server).spawn();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = lines.take(count).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    lines
}

#[test]
fn a_watch_without_a_terminal_prints_each_change_once() {
    let ended = of_id(RUNNING, "succeeded", &value!({"created_at": LATE}));
    let new = failed(3, LATE);
    let found = || {
        let lists = vec![
            list(&[queued(), running(), failed(2, "2026-01-01T00:00:00Z")]),
            list(&[queued(), running()]),
            list(&[new.clone(), queued(), ended.clone()]),
        ];
        server(&["the launcher takes it next", "no agent is connected"], lists)
    };
    let lines = watch(&found(), "status --watch --interval 1", 5);
    // Each line begins with the time of the read.
    let lines: Vec<&str> = lines.iter().map(|line| line.split_once("  ").unwrap().1).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let lines =
        watch(&found(), "status -w --interval 1 -o json --jq [.id,.previous_status,.status]", 5);
    insta::assert_snapshot!("changes_as_json", lines.join("\n"));
}

#[test]
fn wrong_filters_are_refused_before_any_request() {
    let server = CannedServer::start([]);
    let calls = [
        "list runners --jq .[",
        "list runners --jq .x -o yaml",
        "logs 01970000-0000-7000-8000-000000000001 --jq .",
        "status --watch -o yaml",
        "status --interval 3",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
    assert!(server.requests().is_empty());
}

#[test]
fn a_filter_applies_to_every_result_in_json() {
    let project = value!({"id": "shop", "display_name": "Shop"});
    let server = CannedServer::start([
        ("GET /projects", list(&[project.clone(), value!({"id": "blog"})])),
        ("GET /projects/shop", json(200, &project)),
    ]);
    assert_eq!(
        run(&server, "list projects --jq .[].id"),
        "exit: 0\n--- stdout\nshop\nblog\n--- stderr\n"
    );
    assert_eq!(
        run(&server, "get project shop --jq .display_name"),
        "exit: 0\n--- stdout\nShop\n--- stderr\n"
    );
    let failed = run(&server, "get project shop --jq .id|keys");
    assert!(
        failed.starts_with("exit: 2\n") && failed.contains("--jq `.id|keys` fails"),
        "{failed}"
    );
}
