//! Which changes of a runner hide its running jobs.

use super::*;

#[test]
fn a_change_of_what_concerns_jobs_to_come_leaves_the_way_to_running_jobs() {
    let local = json!({
        "runner_configuration": { "type": "local" },
        "state_storage_configuration": { "type": "local", "path": "/srv" },
    });
    let change = |whole: &Value, path: &str, value: Value| {
        let mut changed = whole.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[name] = value;
        parse(&changed)
    };
    let environment = json!({ "environment": { "A": "b" }, "timeouts": { "run_seconds": 900 } });
    for (whole, path, value, finds) in [
        (local.clone(), "/description", json!("x"), true),
        (local.clone(), "/runner_configuration/job", environment, true),
        (local.clone(), "/state_storage_configuration/path", json!("/other"), true),
        (local, "/runner_configuration/agents", json!({ "ids": ["a1"] }), false),
        (ecs(), "/runner_configuration/job/environment", json!({ "A": "b" }), true),
        (ecs(), "/runner_configuration/job/cluster", json!("other"), false),
        (gke(), "/runner_configuration/job/namespace", json!("other"), false),
        (gke(), "/runner_configuration/cluster/name", json!("other"), false),
    ] {
        let changed = change(&whole, path, value);
        assert_eq!(changed.finds_jobs_of(&parse(&whole)), finds, "{path}");
    }
}
