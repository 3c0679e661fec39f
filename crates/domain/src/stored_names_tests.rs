//! The names under which items are stored: each item is read and written as earlier versions of Canyon wrote it.

use crate::agent::Agent;
use crate::agent_job::AgentJob;
use crate::attempt::Attempt;
use crate::inventory::Environment;
use crate::job::StateTask;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ID: &str = "00000000-0000-0000-0000-000000000007";
const AT: &str = "2026-01-15T12:00:00Z";

fn assert_is_kept<T: Serialize + DeserializeOwned>(stored: &Value) {
    let read: T = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *stored);
}

#[test]
fn a_job_of_an_agent_keeps_its_stored_names() {
    assert_is_kept::<AgentJob>(&json!({
        "deployment": ID, "attempt": 1, "fence": 2, "runner": ID,
        "order": {
            "org_id": "acme", "runner_id": "eu", "kind": "kubernetes-agent", "definition": {},
            "project": "shop", "env": "dev", "launched_at": AT,
        },
        "only": "laptop", "priority": 0,
        "taken": { "agent": "laptop", "session": 3, "place": "cluster", "at": AT, "handed_over": true },
        "wish": "stop", "done": "run",
        "seen": { "observation": { "state": "alive" }, "handle": "pod", "at": AT },
        "tail": { "id": 1, "stream": "log", "offset": 0 },
        "polled": { "name": "job", "namespace": "jobs", "said_at": AT, "look": true },
        "version": 4,
    }));
}

#[test]
fn an_agent_and_its_sessions_keep_their_stored_names() {
    let process = json!({
        "instance": "b", "serves": ["ecs-agent"], "place": "account", "program": "1.0.0",
        "protocol": 1, "concurrency": 5,
    });
    assert_is_kept::<Agent>(&json!({
        "id": "laptop", "identity": { "by": "key", "public_key": "PEM" }, "adoption": "adopted",
        "settled_at": AT, "created_at": AT, "sessions": 3,
        "candidates": [{ "number": 4, "process": process, "opened_at": AT }],
        "session": {
            "number": 3, "instance": "a", "before": ["z"], "opened_at": AT, "last_seen": AT,
            "serves": ["ecs-agent"], "place": "account", "program": "1.0.0", "protocol": 1,
            "concurrency": 5, "running": 0,
        },
        "version": 6,
    }));
}

#[test]
fn an_attempt_keeps_its_stored_names() {
    assert_is_kept::<Attempt>(&json!({
        "number": 1, "fence": 2, "launched_at": AT, "limits": { "start": 1, "run": 2, "stop": 3 },
        "claim_hash": "hash",
        "places": [{ "scope": "runner:eu", "number": 0 }],
        "lock": {
            "id": "l", "waits_for": { "deployment": ID, "attempt": 1 }, "said": "it is alive",
        },
    }));
}

#[test]
fn an_environment_keeps_its_stored_names() {
    assert_is_kept::<Environment>(&json!({
        "id": "dev", "uuid": ID, "project_id": "shop", "project_uuid": ID, "env_type_id": "qa",
        "display_name": "Dev", "status": "active", "runner_id": "eu", "created_at": AT,
        "updated_at": AT, "turns": { "current": ID, "waiting": [ID], "fence": 8 }, "version": 9,
    }));
}

#[test]
fn the_state_handling_of_a_job_keeps_the_names_that_runners_read() {
    assert_is_kept::<StateTask>(&json!({
        "place": "s3://states/a", "move_from": { "place": "s3://states/b", "backend": {} },
    }));
}
