//! How states of environments are shown and moved.

use crate::canned_server::{CannedServer, done, json};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};

fn output_of(server: &CannedServer, calls: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let run = |call: &&str| {
        format!("$ canyon {call}\n{}", Invocation::new(folder.path(), call).at(server).run())
    };
    calls.iter().map(run).collect::<Vec<_>>().join("\n")
}

fn environment(id: &str, state: &Value) -> Value {
    value!({
        "id": id, "project_id": "shop", "env_type_id": "development", "display_name": id,
        "runner_id": "laptop", "status": "active", "state": state,
    })
}

fn state(resources: u32, more: &Value) -> Value {
    let mut state = value!({
        "place": "s3://states/a.tfstate", "storage_type": "s3", "storage_digest": "9f86d081",
        "lineage": "8c1f3c2e", "serial": 7, "resources": resources,
        "reported_by": "01970000-0000-7000-8000-000000000001",
        "reported_at": "2026-01-01T00:00:00Z",
    });
    for (name, member) in more.as_object().unwrap() {
        state[name] = member.clone();
    }
    state
}

#[test]
fn an_environment_is_shown_with_its_state_and_its_limit() {
    let moving = value!({"uncertain": true, "moves_to": "s3://other/a.tfstate"});
    let mut dev = environment("dev", &state(12, &moving));
    dev["deletion_protection"] = value!({"max_deletions": 0});
    let brief = |n: u32, status: &str| {
        value!({
            "id": format!("01970000-0000-7000-8000-00000000000{n}"), "mode": "deploy", "status": status,
            "created_at": "2026-01-01T00:00:00Z", "created_by": "01970000-0000-7000-8000-000000000009",
        })
    };
    dev["deployments"] = value!({
        "last": brief(2, "running"), "last_success": brief(1, "succeeded"),
        "current": "01970000-0000-7000-8000-000000000002", "waiting": 0, "blocked_by_lock": "4b2f",
    });
    let new = environment("new", &Value::Null);
    let live = environment("live", &state(30, &value!({})));
    let page = value!({"items": [&dev, &live, &new]});
    let server = CannedServer::start([
        ("GET /projects/shop/envs/dev", json(200, &dev)),
        ("GET /projects/shop/envs", json(200, &page)),
    ]);
    insta::assert_snapshot!(output_of(
        &server,
        &[
            "get environment shop dev",
            "get environment shop dev --out yaml",
            "list environments shop"
        ],
    ));
    let json = output_of(&server, &["list environments shop --out json"]);
    assert!(!json.contains("12?") && json.contains("\"resources\": 12"), "{json}");
}

#[test]
fn a_change_that_would_leave_states_behind_is_refused_with_the_environments() {
    let environments: Vec<Value> =
        (1..=22).map(|n| value!({"project_id": "pay/eu", "id": format!("env-{n}")})).collect();
    let refusal = |environments: &[Value]| {
        json(
            409,
            &value!({
                "error": "API-409", "details": {"environments": environments},
                "message": "environments of runner `laptop` may have resources in its storage",
            }),
        )
    };
    let one = [value!({"project_id": "shop", "id": "dev"})];
    let server = CannedServer::start([
        ("GET /runners/laptop", json(200, &value!({"id": "laptop"}))),
        ("PATCH /runners/laptop", refusal(&environments)),
        ("GET /projects/shop/envs/dev", json(200, &value!({"id": "dev", "runner_id": "a"}))),
        ("POST /projects/shop/envs/dev/actions/refresh_runner", refusal(&one)),
    ]);
    insta::assert_snapshot!(output_of(
        &server,
        &[
            "update runner laptop --set=state_storage_configuration.path=/b",
            "refresh-runner shop dev",
        ],
    ));
}

#[test]
fn a_state_moves_when_an_administrator_requests_it() {
    let moved = value!({"runner_id": "b", "updated": true, "moves_state_to": "s3://b/a.tfstate"});
    let stored = value!({"state_storage_configuration": {"type": "local", "path": "/a"}});
    let server = CannedServer::start([
        ("GET /runners/laptop", json(200, &stored)),
        ("PATCH /runners/laptop", json(200, &value!({"id": "laptop"}))),
        ("GET /projects/shop/envs/dev", json(200, &value!({"id": "dev", "runner_id": "a"}))),
        ("POST /projects/shop/envs/dev/actions/refresh_runner", json(200, &moved)),
    ]);
    insta::assert_snapshot!(output_of(
        &server,
        &[
            "update runner laptop --set=state_storage_configuration.path=/b --migrate",
            "update runner laptop --migrate",
            "refresh-runner shop dev --migrate",
        ],
    ));
    let sent =
        value!({"state_storage_configuration": {"type": "local", "path": "/b"}, "migrate": true});
    assert_eq!(server.bodies("PATCH /runners/laptop"), [sent]);
    let requests = server.requests();
    assert!(
        requests[3].what.ends_with("refresh_runner?dry_run=false&migrate=true"),
        "{requests:?}"
    );
}

#[test]
fn an_audit_record_is_shown_with_the_first_of_its_details() {
    let record = |details: &[&str]| {
        value!({
            "at": "2026-01-01T00:00:00Z", "action": "delete_environment", "subject": "shop/dev",
            "by": "user", "by_right": "admin", "details": details,
        })
    };
    let all = ["left behind: 4 resources", "x.a", "x.b", "x.c", "x.d"];
    let page = value!({"items": [record(&all), record(&all[..1]), record(&[])]});
    let server = CannedServer::start([("GET /audit-records", json(200, &page))]);
    insta::assert_snapshot!(output_of(&server, &["list audit"]));
    assert!(output_of(&server, &["list audit --out json"]).contains("\"x.d\""));
}

#[test]
fn a_deployment_is_shown_with_the_deletions_that_ended_it() {
    let deployment =
        crate::deploying::deployment("failed", &value!({"refused_deletions": 3, "attempts": []}));
    let server = CannedServer::start([
        ("GET /deployments/01970000-0000-7000-8000-000000000001", json(200, &deployment)),
        ("DELETE /runners/laptop", done()),
    ]);
    let printed = output_of(&server, &[&format!("get deployment {}", crate::deploying::ID)]);
    assert!(printed.contains("\nrefused_deletions") && printed.contains("  3\n"), "{printed}");
}
