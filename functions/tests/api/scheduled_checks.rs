//! Schedules that check a resource of a container job, and what readers of drift see of such a check.

use crate::container_world::{begin_accepted, order_for, succeeds, with_engine};
use crate::harness::{Api, faults};
use canyon_functions::app::announcements::NoBus;
use serde_json::{Value, json};
use std::time::Duration;

const PATH: &str = "/projects/shop/envs/main/schedules";

async fn with_check_of(resource: &str) -> Api {
    let api = with_engine().await;
    let spec = json!({ "resource": resource });
    let body =
        json!({ "id": "hourly", "kind": "container-check", "every_seconds": 3600, "spec": spec });
    let made = api.make(PATH, body).await;
    assert_eq!(made["spec"], json!({ "resource": "s3.default#photos" }));
    api
}

/// Lets the next due time come. Returns what became of it.
async fn next_run(api: &Api) -> Value {
    api.clock.advance(Duration::from_hours(1));
    assert_eq!(api.app.run_due_schedules(&NoBus).await.unwrap(), 1);
    api.get(&format!("{PATH}/hourly")).await.1["last"].clone()
}

async fn drifted_resources(api: &Api) -> Value {
    let (status, drift) = api.get("/projects/shop/envs/main/drift").await;
    assert_eq!((status, &drift["status"]), (200, &json!("unknown")), "it is of the module alone");
    drift["drifted_resources"].clone()
}

#[tokio::test]
async fn a_schedule_checks_a_resource_and_drift_shows_what_the_last_check_has_found() {
    let api = with_check_of("s3#photos").await;
    let mut body = order_for("s3#photos");
    body["container"]["check"] = json!({ "command": ["/opt/bucket", "check"] });
    succeeds(&api, body).await;
    for (changed, status) in [(0, "in_sync"), (1, "drifted"), (0, "in_sync")] {
        let run = next_run(&api).await;
        let id = run["deployment_id"].as_str().unwrap_or_else(|| panic!("{run}"));
        let (job, claimed) = begin_accepted(&api, id).await;
        assert_eq!(claimed["bundle"]["container"]["job"]["check"]["command"][1], "check");
        assert_eq!(claimed["plan_only"], true);
        let counts = json!({ "num_resources_added": 0, "num_resources_removed": 0, "num_resources_changed": changed });
        let result = json!({ "status": "success", "phase": "plan", "tf_resource_counts": counts });
        assert_eq!(job.result(&api, result).await.0, 204);
        let check =
            api.get("/projects/shop/envs/main").await.1["resources"][0]["last_check"].clone();
        assert_eq!((&check["status"], &check["deployment_id"]), (&json!(status), &json!(id)));
        let shown = json!({ "resource": "s3.default#photos", "deployment_id": id, "checked_at": check["at"] });
        let expected = if changed > 0 { json!([shown]) } else { Value::Null };
        assert_eq!(drifted_resources(&api).await, expected);
    }
}

#[tokio::test]
async fn a_due_check_is_skipped_with_the_reason_while_there_is_nothing_to_check() {
    let api = with_check_of("s3.default#photos").await;
    let run = next_run(&api).await;
    let reason = "environment `main` has no resource `s3.default#photos`, so there is nothing to check; it has none at all";
    assert_eq!(run["skipped"], reason);
    succeeds(&api, order_for("s3#photos")).await;
    let run = next_run(&api).await;
    let reason = run["skipped"].as_str().unwrap();
    assert!(reason.contains("has no `check`"), "{reason}");
}

#[tokio::test]
async fn a_check_names_its_resource_in_spec() {
    let api = with_engine().await;
    let mut wrong = Vec::new();
    for (spec, paths) in [
        (Value::Null, &["spec.resource"][..]),
        (json!([]), &["spec"]),
        (json!({}), &["spec.resource"]),
        (json!({ "resource": "Not A Name" }), &["spec.resource"]),
        (json!({ "resource": "s3", "container": {} }), &["spec.container"]),
    ] {
        let body =
            json!({ "id": "hourly", "kind": "container-check", "cron": "@hourly", "spec": spec });
        let answer = api.post(PATH, body).await;
        if (answer.0, faults(&answer)) != (400, paths.to_vec()) {
            wrong.push(format!("{spec}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
