//! Checks of resources of container jobs, and what `canyon drift` shows of them.

use crate::canned_server::{CannedServer, json};
use crate::deploying::{ID, deployment, server};
use crate::deployments::run;
use serde_json::{Value, json as value};

const CHECK: &str = "drift check shop dev --resource s3#photos";

fn environment(kind: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let resource = value!({
        "name": "s3.default#photos", "type": "s3", "class": "default", "id": "photos", "kind": kind, "status": "ready",
        "created_at": at, "updated_at": at,
    });
    value!({
        "id": "dev", "uuid": ID, "project_id": "shop", "project_uuid": ID, "env_type_id": "development",
        "display_name": "dev", "created_at": at, "updated_at": at, "status": "active", "runner_id": "engine",
        "resources": [resource],
    })
}

/// A server on which the check ends so.
fn checking(kind: &str, status: &str, changed: u32) -> CannedServer {
    let metrics = value!({
        "num_workloads": 0, "num_resource_nodes": 0, "num_tf_resources_changed": changed,
    });
    let end = value!({ "metrics": metrics, "completed_at": "2026-01-01T00:01:00Z", "status_message": "no bucket" });
    let environment = json(200, &environment(kind));
    server(&deployment(status, &end), b"", vec![("GET /projects/shop/envs/dev", environment)])
}

#[test]
fn the_exit_code_of_a_check_of_a_resource_says_whether_it_differs() {
    for (status, changed, code, text) in [
        (
            "succeeded",
            0,
            0,
            "`s3.default#photos` of shop/dev is as its last deployment has left it",
        ),
        (
            "succeeded",
            1,
            2,
            "`s3.default#photos` of shop/dev is not as its last deployment has left it",
        ),
        ("failed", 0, 1, "no bucket"),
    ] {
        let server = checking("container", status, changed);
        let printed = run(&server, &format!("{CHECK} --wait"));
        assert!(printed.starts_with(&format!("exit: {code}\n")), "{status} {changed}: {printed}");
        assert!(printed.contains(text), "{status} {changed}: {printed}");
        let sent = value!({
            "mode": "plan_only", "project_id": "shop", "env_id": "dev", "resource": "s3.default#photos",
        });
        assert_eq!(server.bodies("POST /deployments"), [sent]);
    }
}

#[test]
fn only_a_resource_that_exists_and_that_a_container_job_has_made_is_checked() {
    for (kind, call, code, text) in [
        ("tofu", CHECK, 9, "canyon plan shop dev --resource s3.default#photos"),
        (
            "container",
            "drift check shop dev --resource s3#photo",
            7,
            "did you mean `s3.default#photos`?",
        ),
        ("container", "drift check shop dev --resource S3", 2, "--resource `S3` must be TYPE"),
    ] {
        let server = checking(kind, "succeeded", 0);
        let printed = run(&server, call);
        assert!(printed.starts_with(&format!("exit: {code}\n")), "{call}: {printed}");
        assert!(printed.contains(text), "{call}: {printed}");
        assert_eq!(server.bodies("POST /deployments"), [Value::Null; 0]);
    }
}

#[test]
fn the_drift_of_an_environment_lists_the_resources_that_differ() {
    let found = value!({
        "project_id": "shop", "env_id": "dev", "status": "unknown", "num_resources": 0, "num_drifted": 0, "num_ignored": 0,
        "changes": [], "truncated": false, "history": [],
        "drifted_resources": [
            { "resource": "s3.default#photos", "deployment_id": ID, "checked_at": "2026-01-01T00:00:00Z" },
        ],
    });
    let server = CannedServer::start([("GET /projects/shop/envs/dev/drift", json(200, &found))]);
    insta::assert_snapshot!(run(&server, "drift shop dev"), @r"
    exit: 0
    --- stdout
    no check of shop/dev has ended yet; begin one: canyon drift check shop dev
    resource s3.default#photos is not as its last deployment has left it, as checked at 2026-01-01T00:00:00Z
    --- stderr
    ");
}
