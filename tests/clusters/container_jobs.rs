//! Container jobs in a cluster, on an engine and on ECS: the program is in an image that has nothing else, the runner comes beside it.

use crate::ecs::docker;
use crate::harness::bed::{Bed, bed};
use crate::harness::deployments::{LIMIT, assert_succeeded, failure, request};
use crate::harness::kinds::Kind;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::failure::FailureClass;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const RESOURCE: &str = "container.default#main";

/// The image of `job.c` in the cluster's registry, for the user 10001: `/job`, and `/opt/container`.
pub(crate) fn pushed_image() -> String {
    pushed_image_with(None)
}

/// The same with the certificate authorities in a file.
pub(crate) fn pushed_image_with(authorities: Option<&Path>) -> String {
    pushed_image_for("10001:10001", authorities)
}

/// The same for another user.
fn pushed_image_for(user: &str, authorities: Option<&Path>) -> String {
    const SCRIPT: &str = r#"
        set -eu
        cc -O1 -static -o "$1/job" "$2"
        mkdir -p "$1/etc/ssl/certs" "$1/opt"
        ln "$1/job" "$1/opt/container"
        [ -z "$4" ] || cp "$4" "$1/etc/ssl/certs/ca-certificates.crt"
        tar -C "$1" -c job opt etc | docker import --change "USER $5" - "$3" >/dev/null
        docker push --quiet "$3" >/dev/null
        docker rmi "$3" >/dev/null
    "#;
    let folder = tempfile::tempdir().unwrap();
    let image = format!("{}/{}:1", bed().get("REGISTRY"), Bed::unique("job"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/clusters/bed/job.c");
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(folder.path()).args([source, &image]);
    command.arg(authorities.unwrap_or(Path::new(""))).arg(user);
    let made = command.env("DOCKER_HOST", bed().get("DOCKER_HOST")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    image
}

pub(crate) fn container(image: &str, command: &[&str], more: &Value) -> DeploymentCreateBody {
    let mut job = json!({ "image": image, "command": command, "grace_seconds": 2 });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    DeploymentCreateBody { container: Some(job), ..request(ENV, None) }
}

pub(crate) fn destruction() -> DeploymentCreateBody {
    DeploymentCreateBody {
        mode: RequestedMode::Destroy,
        resource: Some(RESOURCE.to_owned()),
        ..request(ENV, None)
    }
}

/// The status of the environment's only resource; `None` if it has none.
async fn status(site: &Site) -> Option<String> {
    let environment = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    environment["resources"][0]["status"].as_str().map(str::to_owned)
}

/// What the last check of the environment's only resource has found.
async fn last_check(site: &Site) -> Option<String> {
    let environment = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    environment["resources"][0]["last_check"]["status"].as_str().map(str::to_owned)
}

/// A check of the resource, by `job`, or by the job that has created it.
fn a_check(job: Option<Value>) -> DeploymentCreateBody {
    let resource = Some(RESOURCE.to_owned());
    let mode = RequestedMode::PlanOnly;
    DeploymentCreateBody { mode, resource, container: job, ..request(ENV, None) }
}

/// The digest of the image that a deployment has run, which some platforms tell only after its end.
pub(crate) async fn digest_of(site: &Site, id: &str) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let deployment = site.client.deployment(id).await.unwrap();
        if let Some(digest) = deployment.container.and_then(|container| container.digest) {
            assert_eq!(digest.len(), 64, "{digest}");
            return digest;
        }
        assert!(Instant::now() < deadline, "no digest\n{}", site.server.log());
        sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the program runs.
async fn has_begun(site: &Site, id: &str) {
    let deadline = Instant::now() + LIMIT;
    while !site.log(id).await.contains("it has begun") {
        assert!(Instant::now() < deadline, "it does not begin\n{}", site.server.log());
        sleep(Duration::from_millis(50)).await;
    }
}

/// A resource that was created is checked, by its own job and by one that finds a change.
async fn checks(site: &Site, image: &str) {
    assert_succeeded(&site.run(&a_check(None)).await);
    assert_eq!(last_check(site).await.as_deref(), Some("in_sync"));
    let finds = json!({ "check": { "command": ["/job", "checks", "all"] } });
    let finds = container(image, &["/job"], &finds).container;
    let drifted = site.run(&a_check(finds)).await;
    assert_succeeded(&drifted);
    assert_eq!(drifted.metrics.num_tf_resources_changed, Some(1), "{drifted:#?}");
    assert_eq!(last_check(site).await.as_deref(), Some("drifted"));
    assert_eq!(status(site).await.as_deref(), Some("ready"), "a check changes nothing");
    is_checked_by_a_schedule(site).await;
    assert_eq!(last_check(site).await.as_deref(), Some("in_sync"));
}

/// A schedule runs the check of the job that has created the resource.
async fn is_checked_by_a_schedule(site: &Site) {
    let soon = Timestamp::now() + SignedDuration::from_secs(5);
    let body = json!({
        "id": "check", "kind": "container-check", "at": soon.to_string(), "spec": { "resource": RESOURCE },
    });
    let path = ["projects", PROJECT, "envs", ENV, "schedules"];
    site.client.create(&path, &body).await.unwrap();
    let path = [&path[..], &["check"]].concat();
    let deadline = Instant::now() + LIMIT;
    let id = loop {
        let last = site.client.get(&path).await.unwrap()["last"].take();
        if let Some(id) = last["deployment_id"].as_str() {
            break id.to_owned();
        }
        assert!(Instant::now() < deadline && last.is_null(), "{last}\n{}", site.server.log());
        sleep(Duration::from_millis(100)).await;
    };
    assert_succeeded(&site.end(&id).await);
}

/// What every kind of compute does with a container job.
async fn comes_and_goes(kind: Kind) {
    let image = pushed_image();
    let site = Site::new(kind).await;
    let check = json!({ "check": { "command": ["/job", "checks"] } });
    let created = site.run(&container(&image, &["/job"], &check)).await;
    assert_succeeded(&created);
    assert_eq!(created.attempts.len(), 1, "{created:#?}");
    let id = created.id.to_string();
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["user"].value, Some(json!(10_001).into()));
    assert_eq!(outputs["folder"].value, Some(json!("/canyon/work").into()));
    let log = site.log(&id).await;
    assert!(log.contains("the job of user 10001 does: create"), "{log}");
    assert_eq!(status(&site).await.as_deref(), Some("ready"));

    // These share the dispatcher of the first.
    if !matches!(kind, Kind::Gke | Kind::Eks | Kind::Aks) {
        checks(&site, &image).await;
    }

    let failed = site.run(&container(&image, &["/job", "fails"], &json!({}))).await;
    let words = "EXIT_CODE: exit code 3: no such bucket".to_owned();
    assert_eq!(failure(&failed), (FailureClass::User, words));
    let missing = site.run(&container(&image, &["/none"], &json!({}))).await;
    let (class, words) = failure(&missing);
    assert_eq!(class, FailureClass::Config, "{words}");
    assert!(words.contains("/none") && words.contains(&image), "{words}");
    assert_eq!(status(&site).await.as_deref(), Some("failed"));

    // The job of the last success, not of the failures, by the digest of its image.
    let digest = digest_of(&site, &id).await;
    let destroyed = site.run(&destruction()).await;
    assert_succeeded(&destroyed);
    assert_eq!(digest_of(&site, &destroyed.id.to_string()).await, digest);
    let log = site.log(&destroyed.id.to_string()).await;
    assert!(log.contains("the job of user 10001 does: destroy"), "{log}");
    assert_eq!(status(&site).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_comes_and_goes_in_a_cluster() {
    comes_and_goes(Kind::Oidc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_comes_and_goes_on_gke() {
    comes_and_goes(Kind::Gke).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_comes_and_goes_on_eks() {
    comes_and_goes(Kind::Eks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_comes_and_goes_on_aks() {
    comes_and_goes(Kind::Aks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_comes_and_goes_on_the_machines_own_engine() {
    comes_and_goes(Kind::Docker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_comes_and_goes_on_fargate() {
    comes_and_goes(Kind::Ecs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_root_is_refused_on_fargate_before_its_program_begins() {
    let image = pushed_image_for("0", None);
    let site = Site::new(Kind::Ecs).await;
    let ended = site.run(&container(&image, &["/job"], &json!({}))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Config, "{message}");
    assert!(message.starts_with("ROOT: ") && message.contains(&image), "{message}");
    assert_eq!(status(&site).await, None, "nothing began");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_has_both_containers_and_one_definition_for_each_image() {
    let image = pushed_image();
    let site = Site::new(Kind::Ecs).await;
    for _ in 0..2 {
        let created = site.run(&container(&image, &["/job"], &json!({}))).await;
        assert_succeeded(&created);
        let tasks = site.place.account().tasks(&created.id.to_string()).await;
        let [inject, main] = &tasks[0]["containers"].as_array().unwrap()[..] else {
            panic!("{tasks:#?}")
        };
        assert_eq!((&inject["name"], &inject["exitCode"]), (&json!("canyon-inject"), &json!(0)));
        assert_eq!(inject["image"], bed().get("RUNNER_IMAGE"));
        assert_eq!(main["image"], image.as_str());
    }
    let registered = site.place.account().bodies("RegisterTaskDefinition").await;
    assert_eq!(registered.len(), 1, "{registered:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_has_the_image_of_the_job_and_the_runners_program_from_its_image() {
    let image = pushed_image();
    let site = Site::new(Kind::Oidc).await;
    let id = site.accept(&container(&image, &["/job"], &json!({}))).await;
    let pod = site.pod(&id, "at all", |_| true).await;
    assert_eq!(pod["spec"]["containers"][0]["image"], image);
    assert_eq!(pod["spec"]["initContainers"][0]["image"], bed().get("RUNNER_IMAGE"));
    assert_succeeded(&site.end(&id).await);
    site.is_cleared(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_program_in_a_cluster_on_an_engine_and_on_fargate() {
    let image = pushed_image();
    for kind in [Kind::Oidc, Kind::Docker, Kind::Ecs] {
        let site = Site::new(kind).await;
        let id = site.accept(&container(&image, &["/job", "waits"], &json!({}))).await;
        has_begun(&site, &id).await;
        assert_eq!(status(&site).await.as_deref(), Some("creating"));
        site.client.cancel(&id).await.unwrap();
        let ended = site.end(&id).await;
        assert_eq!(ended.status, "cancelled", "{ended:#?}");
        assert_eq!(status(&site).await.as_deref(), Some("failed"), "it may have left something");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_too_long_is_ended() {
    let image = pushed_image();
    let site = Site::new(Kind::Docker).await;
    let limit = json!({ "timeout_seconds": 10 });
    let ended = site.run(&container(&image, &["/job", "waits"], &limit)).await;
    let words = "TIMEOUT: after 10 s in create".to_owned();
    assert_eq!(failure(&ended), (FailureClass::Timeout, words));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_runs_again_only_if_its_job_is_idempotent() {
    let image = pushed_image();
    let site = Site::new(Kind::Docker).await;
    for (idempotent, attempts) in [(false, 1), (true, 2)] {
        let more = json!({ "idempotent": idempotent });
        let id = site.accept(&container(&image, &["/job", "waits"], &more)).await;
        has_begun(&site, &id).await;
        let filter = format!("label=canyon.dev/deployment={id}");
        let running = docker(&["ps", "--quiet", "--filter", &filter]);
        docker(&["kill", "--signal", "KILL", running.trim()]);
        let ended = site.end(&id).await;
        assert_eq!(ended.attempts.len(), attempts, "{ended:#?}");
        let status = if idempotent { "succeeded" } else { "failed" };
        assert_eq!(ended.status, status, "{ended:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canyon_that_is_killed_at_any_moment_runs_a_program_once_and_leaves_nothing() {
    let image = pushed_image();
    let mut site = Site::new(Kind::Docker).await;
    for pause in [0, 30, 100, 200, 300, 450] {
        let id = site.accept(&container(&image, &["/job"], &json!({}))).await;
        sleep(Duration::from_millis(pause)).await;
        site.server.kill();
        site.server.restart().await;
        let ended = site.end(&id).await;
        assert_succeeded(&ended);
        let log = site.log(&id).await;
        assert_eq!(log.matches("does: create").count(), 1, "killed after {pause} ms: {log}");
        let filter = format!("label=canyon.dev/deployment={id}");
        let deadline = Instant::now() + LIMIT;
        while !docker(&["ps", "--all", "--quiet", "--filter", &filter]).trim().is_empty() {
            assert!(Instant::now() < deadline, "a container is left\n{}", site.server.log());
            sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_of_a_failed_job_stays_as_long_as_the_job_says() {
    let image = pushed_image();
    let site = Site::new(Kind::Docker).await;
    let keep = json!({ "keep_seconds": 8 });
    let ended = site.run(&container(&image, &["/job", "fails"], &keep)).await;
    assert_eq!(ended.status, "failed", "{ended:#?}");
    let id = ended.id.to_string();
    let filter = format!("label=canyon.dev/deployment={id}");
    let of_job = |state: &str| {
        docker(&["ps", "--all", "--filter", &filter, "--filter", state, "--format", "{{.Names}}"])
    };
    let log = site.log(&id).await;
    let command = log.lines().find_map(|line| line.split("look into it with `").nth(1));
    let command = command.unwrap_or_else(|| panic!("{log}")).trim_end_matches('`');
    let words: Vec<_> = command.split(' ').collect();
    let ["docker", "exec", "-it", container, "sh"] = words[..] else { panic!("{command}") };
    let is_running = docker(&["inspect", "--format", "{{.State.Running}}", container]);
    assert_eq!(is_running.trim(), "true");
    let deadline = Instant::now() + LIMIT;
    while !of_job("name=canyon").trim().is_empty() {
        assert!(Instant::now() < deadline, "it stays\n{}", site.server.log());
        sleep(Duration::from_millis(200)).await;
    }
    let ended = site.client.deployment(&id).await.unwrap().completed_at.unwrap();
    let kept = jiff::Timestamp::now().duration_since(ended);
    assert!(kept.as_secs() >= 8, "it was removed after {kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_has_the_memory_that_it_asks_for() {
    let image = pushed_image();
    for (kind, memory) in [(Kind::Docker, "96"), (Kind::Oidc, "96Mi")] {
        let site = Site::new(kind).await;
        let amounts = json!({ "memory": memory, "cpu": "0.5" });
        let id = site.accept(&container(&image, &["/job", "waits"], &amounts)).await;
        has_begun(&site, &id).await;
        if kind == Kind::Docker {
            let filter = format!("label=canyon.dev/deployment={id}");
            let running = docker(&["ps", "--quiet", "--filter", &filter]);
            let format = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}";
            let limits = docker(&["inspect", "--format", format, running.trim()]);
            assert_eq!(limits.trim(), format!("{} 500000000", 96 * 1024 * 1024));
        } else {
            let pod = site.pod(&id, "at all", |_| true).await;
            let resources = &pod["spec"]["containers"][0]["resources"];
            let expected = json!({ "cpu": "500m", "memory": "96Mi" });
            assert_eq!(resources["requests"]["memory"], expected["memory"], "{resources}");
            assert_eq!(resources["limits"], expected, "{resources}");
        }
        site.client.cancel(&id).await.unwrap();
        assert_eq!(site.end(&id).await.status, "cancelled");
    }
}
