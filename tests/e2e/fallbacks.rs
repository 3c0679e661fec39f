//! A rule's runners in their order, with a real agent and one state in a bucket.

use crate::agent::AgentSite;
use crate::harness::deployments::{assert_succeeded, counts, destruction, request};
use crate::harness::ledger;
use crate::harness::module;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::states::storage::Storage;
use canyon_api::deployment::Deployment;
use serde_json::json;
use std::time::{Duration, Instant};

const COUNT: u32 = 2;

/// A site whose environments have the runner `far`, with agents, and Canyon's own machine as its fallback.
async fn site(storage: &Storage) -> Site {
    let server = Server::start().await;
    let client = server.client();
    let site = Site { server, client };
    let job = json!({ "environment": storage.variables });
    let agents = json!({ "ids": [crate::agent::NAME] });
    for (id, configuration) in [
        ("far", json!({ "type": "local", "job": job, "agents": agents })),
        ("near", json!({ "type": "local", "job": job })),
    ] {
        let runner = json!({
            "id": id,
            "runner_configuration": configuration,
            "state_storage_configuration": storage.definition,
        });
        site.make(&["runners"], &runner).await;
    }
    let rule = json!({ "runner_id": "far", "fallback_runner_ids": ["near"] });
    site.make(&["runner-rules"], &rule).await;
    site.make(&["env-types"], &json!({ "id": "development" })).await;
    site.make(&["projects"], &json!({ "id": PROJECT })).await;
    for env in [ENV, "other"] {
        site.environment(env).await;
    }
    site
}

#[track_caller]
fn assert_ran_on(runner: &str, deployment: &Deployment, reason: Option<&str>) {
    assert_succeeded(deployment);
    assert_eq!(deployment.runner_id, runner, "{deployment:#?}");
    let fallback = deployment.fallback.as_ref();
    assert_eq!(fallback.map(|fallback| fallback.instead_of.as_str()), reason.map(|_| "far"));
    let said = fallback.map_or("", |fallback| fallback.reason.as_str());
    assert!(said.contains(reason.unwrap_or_default()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_on_the_first_runner_that_is_there_and_finds_its_state() {
    let storage = Storage::s3().await;
    let site = site(&storage).await;
    let path = site.server.path("ledger");
    let module = |seconds, round| module::ledger(&path, COUNT, seconds, round);

    let first = site.deploy(module("0", 0)).await;
    assert_ran_on("near", &first, Some("none has ever connected"));
    assert_eq!(counts(&first), (COUNT, 0, 0));

    // One job at once, so that a second one finds no room.
    let far = AgentSite::joined(site, &["--concurrency", "1"]).await;
    let same = far.site.deploy(module("0", 0)).await;
    assert_ran_on("far", &same, None);
    assert_eq!(counts(&same), (0, 0, 0), "it finds the state that the other runner left");

    // Its agent is busy until it has seen the end of the job's process.
    far.until("it has room", |found| found["session"]["running"] == 0).await;

    // It ends when this test lets it, or after two minutes.
    let end = far.site.server.path("end");
    let wait =
        format!("0; for i in $(seq 1200); do [ -e '{}' ] && break; sleep 0.1; done", end.display());
    let long = far.site.accept(&request(ENV, Some(module(&wait, 1)))).await;
    let deadline = Instant::now() + Duration::from_mins(3);
    while ledger::indexes(&path, "begin", 1).is_empty() {
        assert!(Instant::now() < deadline, "it does not begin");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let beside = far.site.run(&request("other", Some(module("0", 2)))).await;
    assert_ran_on("near", &beside, Some("all 1 connected agents are busy"));
    std::fs::write(&end, "").unwrap();
    assert_ran_on("far", &far.site.end(&long).await, None);

    let disabled = json!({ "disabled": true });
    far.site.client.update(&["runners", "far"], &disabled).await.unwrap();
    let removed = far.site.run(&destruction(ENV)).await;
    assert_ran_on("near", &removed, Some("runner `far` is disabled"));
    assert_eq!(counts(&removed), (0, 0, COUNT));
    assert_succeeded(&far.site.run(&destruction("other")).await);
}
