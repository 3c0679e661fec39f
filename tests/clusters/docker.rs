//! Runners of type `docker`: `canyon local` starts containers of a real engine. It listens on loopback, as on a laptop.

use crate::agent_walled::Wall;
use crate::canaries;
use crate::cancel::accept_slow;
use crate::ecs::{docker, try_docker};
use crate::harness::bed::bed;
use crate::harness::deployments::{LIMIT, assert_succeeded, counts, destruction, failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline, with};
use crate::harness::site::{ENV, RUNNER, Site};
use crate::salvage::{COUNTS, counts_unheard, is_in_the_log};
use crate::trust::check;
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// The ids of a deployment's containers, also of those that have ended.
fn containers(id: &str) -> Vec<String> {
    let filter = format!("label=canyon.dev/deployment={id}");
    let listed = docker(&["ps", "--all", "--quiet", "--filter", &filter]);
    listed.lines().map(str::to_owned).collect()
}

/// The only container of a deployment, as soon as it exists.
async fn container(site: &Site, id: &str) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = containers(id);
        if let [container] = &found[..] {
            return container.clone();
        }
        assert!(found.is_empty() && Instant::now() < deadline, "{found:?}\n{}", site.server.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Kills the deployment's only container as soon as it runs: the engine refuses while it is only created.
async fn kill_container(site: &Site, id: &str) {
    let deadline = Instant::now() + LIMIT;
    while let Err(refusal) = try_docker(&["kill", "--signal", "KILL", &container(site, id).await]) {
        assert!(Instant::now() < deadline, "{refusal}\n{}", site.server.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// What the engine tells of the deployment's only container. A container that an earlier start left is removed, perhaps just
/// after it was listed.
async fn description(site: &Site, id: &str) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let container = container(site, id).await;
        if let Ok(description) = try_docker(&["inspect", &container]) {
            return description;
        }
        assert!(Instant::now() < deadline, "no container stays\n{}", site.server.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until no container of the deployment is left.
async fn is_gone(site: &Site, id: &str) {
    let deadline = Instant::now() + LIMIT;
    while !containers(id).is_empty() {
        assert!(Instant::now() < deadline, "a container is left\n{}", site.server.log());
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_in_containers_of_the_machines_own_engine() {
    let site = Site::new(Kind::Docker).await;
    let checked = check(&site).await;
    assert_eq!(checked.succeeded, Some(true), "{checked:#?}");

    let plan = DeploymentCreateBody {
        mode: RequestedMode::PlanOnly,
        ..request(ENV, Some(inline(THIRTY)))
    };
    let planned = site.run(&plan).await;
    assert_succeeded(&planned);
    let first = site.deploy(inline(THIRTY)).await;
    let id = first.id.to_string();
    assert_eq!(counts(&first), (30, 0, 0), "the plan made nothing");
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("hello 0").into()));
    assert_eq!(outputs["count"].value, Some(json!(30).into()));
    let log = site.log(&id).await;
    assert!(log.contains("tofu apply"), "its log came: {log}");
    for id in [planned.id.to_string(), id] {
        is_gone(&site, &id).await;
    }

    let second = site.deploy(with(inline(THIRTY), "greeting", "good day")).await;
    assert_eq!(counts(&second), (0, 30, 0), "the second deployment knows what the first one made");
    let destroyed = site.run(&destruction(ENV)).await;
    assert_succeeded(&destroyed);
    assert_eq!(counts(&destroyed), (0, 0, 30));
    is_gone(&site, &destroyed.id.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_containers_description_has_no_secret_and_no_other_machine_reaches_its_listener() {
    let site = Site::new(Kind::Docker).await;
    // The key of the bucket is no setting of the runner, but kept as its secret.
    let key = "AWS_SECRET_ACCESS_KEY";
    let mut settings = site.place.account().bucket_variables();
    let secret = settings.remove(key).unwrap();
    let changed = json!({ "type": "docker", "job": { "environment": settings } });
    let change = json!({ "runner_configuration": changed });
    site.client.update(&["runners", RUNNER], &change).await.unwrap();
    let kept = json!({ "environment": { key: { "value": secret, "secret": true } } });
    site.client.update(&["runners", RUNNER, "variables"], &kept).await.unwrap();

    let module = canaries::module(&site).await;
    let id = site.accept(&request(ENV, Some(module))).await;
    let description = description(&site, &id).await;
    canaries::assert_none_in(&[description], &site, &[secret]);
    site.until(&id, "a claim", |deployment| {
        deployment.attempts.first().is_some_and(|attempt| attempt.phase == "apply")
    })
    .await;
    // Its runner has reached Canyon through the gateway, which is an address of this machine. For the kernel, a network
    // namespace is another machine that sends its packets to this one.
    let format = "{{(index .IPAM.Config 0).Gateway}}";
    let gateway = docker(&["network", "inspect", "bridge", "--format", format]);
    let gateway = gateway.trim();
    let other = TcpListener::bind((gateway, 0)).await.unwrap();
    let other_port = other.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(other, axum::Router::<()>::new()).await });
    let machine = Wall::new();
    let there = format!("http://{gateway}:{other_port}/");
    machine.until_reaches(&there, "it reaches the address").await;
    let url = site.server.url();
    let (_, port) = url.rsplit_once(':').unwrap();
    assert!(!machine.reaches(&format!("http://{gateway}:{port}/health")), "not Canyon there");
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    is_gone(&site, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_container() {
    let site = Site::new(Kind::Docker).await;
    let id = accept_slow(&site).await;
    let asked = Instant::now();
    assert_eq!(site.client.cancel(&id).await.unwrap().status, "cancelling");
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    assert!(asked.elapsed() < Duration::from_secs(30), "it took {:?}", asked.elapsed());
    is_gone(&site, &id).await;
    let next = site.deploy(inline(THIRTY)).await;
    assert_eq!(counts(&next), (30, 0, 2), "what was made is known: {next:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_killed_before_the_apply_is_retried_and_during_the_apply_ends_once() {
    let site = Site::new(Kind::Docker).await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    kill_container(&site, &id).await;
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 2, "{ended:#?}");
    let lost = ended.attempts[0].failure.clone().unwrap();
    assert_eq!(lost.class, FailureClass::Lost, "{}", lost.message);
    is_gone(&site, &id).await;

    let id = accept_slow(&site).await;
    kill_container(&site, &id).await;
    let ended = site.end(&id).await;
    assert_eq!((ended.status.as_str(), ended.attempts.len()), ("failed", 1), "{ended:#?}");
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Lost, "{message}");
    is_gone(&site, &id).await;
    // A killed process could not release the lock.
    site.deploy(inline(THIRTY)).await;
}

/// Ten resources that take a moment each.
const STEPS: &str = r#"
resource "terraform_data" "step" {
  count = 10
  provisioner "local-exec" {
    command = "sleep 0.3"
  }
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_canyon_that_is_killed_at_any_moment_loses_no_container_and_starts_none_twice() {
    let mut site = Site::new(Kind::Docker).await;
    let mut seen = BTreeSet::new();
    for milliseconds in [0, 60, 150, 400, 900, 2_500] {
        let id = site.accept(&request(ENV, Some(inline(STEPS)))).await;
        sleep(Duration::from_millis(milliseconds)).await;
        let before = site.client.deployment(&id).await.unwrap();
        site.server.kill();
        sleep(Duration::from_millis(300)).await;
        site.server.restart().await;
        let moment = format!("killed while `{}`", before.status);
        seen.insert(before.status);
        let ended = site.end(&id).await;
        assert_eq!(ended.status, "succeeded", "{moment}: {ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "{moment}: {ended:#?}");
        is_gone(&site, &id).await;
    }
    assert!(seen.len() > 1, "it was always `{seen:?}`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_containers_output_while_canyon_was_down_is_in_the_log_after_it_was_killed() {
    let mut site = Site::new(Kind::Docker).await;
    let id = site.accept(&request(ENV, Some(inline(COUNTS)))).await;
    let container = container(&site, &id).await;
    let count = counts_unheard(&mut site, &id, || docker(&["logs", &container])).await;
    docker(&["kill", "--signal", "KILL", &container]);
    site.server.restart().await;
    is_in_the_log(&site, &id, count).await;
    is_gone(&site, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_the_engine_cannot_pull_is_named() {
    let image = format!("{}/canyon-runner:absent", bed().get("REGISTRY"));
    let site = Site::with(Kind::Docker, |runner| {
        runner["runner_configuration"]["job"]["image"] = json!(image);
    })
    .await;
    let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::ImagePull, "{message}");
    assert!(message.contains(&image) && message.contains("`job.image`"), "{message}");
}
