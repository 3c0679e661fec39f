//! Definitions that the published API accepts and that cannot work: stored, reported, and not
//! launched.

use crate::harness::deployments::{failure, request};
use crate::harness::module::inline;
use crate::harness::site::Site;
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};
use std::fs;

const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";
const SERVER: &str = "`runner_configuration.cluster.cluster_data.server` must be an https:// URL";
const SECOND: &str =
    "`runner_configuration.job.pod_template.spec.containers[1].name` cannot be used";

/// An address without a scheme, and a second container in the pod.
fn crooked() -> Value {
    let containers = json!([{ "name": "main", "image": "a" }, { "name": "sidecar", "image": "b" }]);
    json!({
        "runner_configuration": {
            "type": "kubernetes",
            "cluster": {
                "cluster_data": { "server": "127.0.0.1:1", "certificate_authority_data": PEM },
                "auth": { "service_account_token": "hunter2" },
            },
            "job": {
                "namespace": "canyon", "service_account": "canyon",
                "pod_template": { "spec": { "containers": containers } },
            },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_cannot_work_is_reported_at_once_and_again_by_doctor_and_launch() {
    let site = Site::new().await;
    fs::write(site.server.path("crooked.json"), crooked().to_string()).unwrap();
    let made = site.server.canyon(&["create", "runner", "crooked", "--set-yaml=@crooked.json"]);
    made.done();
    for warning in [SERVER, SECOND] {
        assert!(made.stderr.contains(&format!("warning: {warning}")), "{made:?}");
    }
    let read = site.server.canyon(&["get", "runner", "crooked", "--out", "json"]);
    let runner: Value = serde_json::from_str(read.done()).unwrap();
    assert_eq!(runner["warnings"].as_array().map(Vec::len), Some(2), "{runner}");
    assert_eq!(
        runner["runner_configuration"]["job"],
        crooked()["runner_configuration"]["job"],
        "as it was given"
    );

    site.make(&["projects"], &json!({ "id": "edge" })).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "crooked", "project_id": "edge" })).await;
    let env = json!({ "id": "dev", "env_type_id": "development" });
    site.make(&["projects", "edge", "envs"], &env).await;
    let mut body = request("dev", Some(inline("output \"x\" { value = 1 }")));
    body.project_id = "edge".to_owned();
    let ended = site.run(&body).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Config, "{message}");
    for part in ["runner `crooked` cannot be used", SERVER, SECOND, "canyon update runner crooked"]
    {
        assert!(message.contains(part), "{message}");
    }

    let doctor = site.server.canyon(&["doctor", "runner", "crooked", "--check-only"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.stdout.contains(SERVER) && doctor.stdout.contains("skipped"), "{doctor:?}");
    // Text that a user would paste into a shell is not made from it.
    let printed = site.server.canyon(&["doctor", "runner", "crooked", "--print-only"]);
    assert!(printed.code != 0 && printed.stderr.contains(SERVER), "{printed:?}");

    let mut straight = crooked()["runner_configuration"].clone();
    straight["cluster"]["cluster_data"]["server"] = json!("https://127.0.0.1:1");
    straight["job"]["pod_template"] = json!({});
    let patch = json!({ "runner_configuration": straight }).to_string();
    let update = ["update", "runner", "crooked", "--set-yaml=-"];
    let changed = site.server.canyon_with(&update, &patch, &[]);
    changed.done();
    assert!(!changed.stderr.contains("warning"), "{changed:?}");
    let doctor = site.server.canyon(&["doctor", "runner", "crooked", "--check-only"]);
    assert!(doctor.stdout.contains("ok") && !doctor.stdout.contains(SERVER), "{doctor:?}");
}
