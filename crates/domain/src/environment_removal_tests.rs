use super::*;
use crate::environment_end::AfterEnd;
use serde_json::{Value, json};

const ID: &str = "00000000-0000-7000-8000-000000000001";

fn resource(name: &str, number: u8) -> Value {
    json!({
        "name": name, "status": "ready", "succeeded": run_id(number),
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
    })
}

fn run_id(number: u8) -> String {
    format!("00000000-0000-7000-8000-0000000001{number:02}")
}

/// An environment that is being deleted: the run 1 for `dns` has the turn, and 2 for `s3` waits.
fn deleting(removed_by: Option<u8>) -> Environment {
    let value = json!({
        "id": "dev", "uuid": ID, "project_id": "shop", "project_uuid": ID, "env_type_id": "dev", "display_name": "dev",
        "runner_id": "laptop", "status": "deleting", "removed_by": removed_by.map(run_id),
        "queue": { "current": run_id(1), "waiting": [run_id(2)], "fence": 1 },
        "resources": [resource("s3.default#old", 8), resource("dns.default#new", 9)],
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

/// A destroy run of the deletion, as it ended after its launch.
fn ended(number: u8, resource: &str, status: &str) -> Deployment {
    let attempt = json!({
        "number": 1, "fence": 1, "launched_at": "2026-01-01T00:00:00Z",
        "limits": { "start": 300, "run": 3_600, "stop": 30 }, "claim_hash": "h", "phase": "apply",
    });
    let container =
        json!({ "resource": resource, "image": "a", "timeout_seconds": 60, "grace_seconds": 60 });
    let value = json!({
        "id": run_id(number), "project": "shop", "env": "dev", "env_uuid": ID, "runner": "laptop",
        "mode": "destroy", "of_removal": true, "status": status, "message": "still in use",
        "container": container, "created_at": "2026-01-01T00:00:00Z", "created_by": ID,
        "attempts": [attempt], "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

fn at(second: i64) -> Timestamp {
    let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    created + SignedDuration::from_secs(second)
}

fn stays(after: AfterEnd) -> Environment {
    let AfterEnd::Stay(environment, _) = after else { panic!("it is removed") };
    *environment
}

#[test]
fn resources_are_destroyed_the_newest_first_and_then_the_module() {
    let mut environment = deleting(None);
    let steps = |of: &Environment| {
        let steps = of.removal_steps().into_iter();
        steps.map(|step| step.map(|name| name.to_string())).collect::<Vec<_>>()
    };
    let resources = [Some("dns.default#new".to_owned()), Some("s3.default#old".to_owned())];
    assert_eq!(steps(&environment), resources);
    environment.module.applied = Some(run_id(7).parse().unwrap());
    assert_eq!(steps(&environment), [&resources[..], &[None]].concat());
}

#[test]
fn no_run_starts_before_the_last_one_is_accepted_nor_after_the_deletion_stopped() {
    let run = ended(1, "dns", "queued");
    let turn = |of: &Environment, second: i64| of.removal_turn(&run, at(second));
    assert_eq!(turn(&deleting(None), 5), RemovalTurn::Wait(at(6)));
    assert_eq!(turn(&deleting(Some(2)), 5), RemovalTurn::Go);
    let RemovalTurn::End(failure) = turn(&deleting(None), 120) else { panic!("it waits for ever") };
    assert!(failure.message.contains("canyon delete environment shop dev"), "{failure:?}");
    let mut stopped = deleting(None);
    stopped.status = EnvironmentStatus::DeleteFailed;
    assert!(matches!(turn(&stopped, 5), RemovalTurn::End(_)));
    let another = Deployment { of_removal: false, ..run.clone() };
    assert_eq!(stopped.removal_turn(&another, at(5)), RemovalTurn::Go);
}

#[test]
fn the_environment_is_removed_after_the_last_run_and_a_failed_one_stops_its_deletion() {
    let begun = deleting(Some(2));
    let after = stays(begun.after_end(&ended(1, "dns.default#new", "succeeded")));
    assert_eq!(after.status, EnvironmentStatus::Deleting);
    assert_eq!(after.after_end(&ended(2, "s3.default#old", "succeeded")), AfterEnd::Remove);

    // A run that an earlier version accepted has no mark.
    let mut empty = deleting(Some(1));
    empty.resources = serde_json::from_value(json!([])).unwrap();
    empty.queue = serde_json::from_value(json!({ "current": run_id(1), "fence": 1 })).unwrap();
    let unmarked = Deployment { of_removal: false, ..ended(1, "dns", "failed") };
    assert_eq!(stays(empty.after_end(&unmarked)).status, EnvironmentStatus::DeleteFailed);

    let after = stays(begun.after_end(&ended(1, "dns.default#new", "failed")));
    assert_eq!((after.status, after.removed_by), (EnvironmentStatus::DeleteFailed, None));
    let said = after.status_message.clone().unwrap();
    assert!(
        said.contains("resource `dns.default#new` ended as failed: still in use; left are"),
        "{said}"
    );
    // The run that waited ends without a launch, and the message stays.
    let mut waited = ended(2, "s3.default#old", "failed");
    waited.attempts.clear();
    let after = stays(after.after_end(&waited));
    assert_eq!((after.status, after.status_message), (EnvironmentStatus::DeleteFailed, Some(said)));
    assert_eq!(after.resources.iter().len(), 2);
}
