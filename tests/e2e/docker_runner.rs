//! Runners of type `docker` on a machine whose engine does not run.

use crate::deploy_local::keeping;
use crate::harness::deployments::{failure, request};
use crate::harness::module::{THIRTY, inline};
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use canyon_api::deployment::Deployment;
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};

/// A server with this `DOCKER_HOST`, and a runner for the engine.
async fn with_engine_at(host: &str) -> Site {
    let settings = vec![
        ("DOCKER_HOST", host.to_owned()),
        ("CANYON_RUNNER_IMAGE", "canyon.example/canyon-runner:1".to_owned()),
    ];
    let server = Server::start_with_settings(settings).await;
    keeping(server, json!({ "type": "docker" }), json!({ "type": "s3", "bucket": "states" })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_waits_for_the_engine_and_says_what_to_start() {
    let site = with_engine_at("unix:///nowhere/docker.sock").await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    let has_reason = |found: &Deployment| {
        found.waiting.as_ref().is_some_and(|waiting| waiting.reason.contains("does not answer"))
    };
    let reason = site.until(&id, "a reason to wait", has_reason).await.waiting.unwrap().reason;
    for word in ["unix:///nowhere/docker.sock", "systemctl start docker", "DOCKER_HOST"] {
        assert!(reason.contains(word), "{word}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_fails_the_deployment_and_not_canyon() {
    let site = with_engine_at("ssh://me@elsewhere").await;
    let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Config, "{message}");
    assert!(message.contains("DOCKER_HOST must be unix:///PATH"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_cannot_keep_states_on_a_disk_that_its_containers_do_not_see() {
    let server = Server::start().await;
    let runner = |storage: Value| {
        json!({
            "id": "engine",
            "runner_configuration": { "type": "docker" },
            "state_storage_configuration": storage,
        })
    };
    let client = server.client();
    let disk = json!({ "type": "local", "path": "/var/lib/states" });
    let refused = client.create(&["runners"], &runner(disk)).await.unwrap_err().to_string();
    assert!(refused.contains("use one of `s3`, `gcs`, `azurerm`"), "{refused}");
    let bucket = json!({ "type": "s3", "bucket": "states" });
    client.create(&["runners"], &runner(bucket)).await.unwrap();
}
