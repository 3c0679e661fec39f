//! Deployments to ECS: each job is a task, whose container really runs, with its state in a bucket.

use crate::canaries;
use crate::cancel::accept_slow;
use crate::harness::account::{self, Account};
use crate::harness::bed::bed;
use crate::harness::deployments::{LIMIT, assert_succeeded, counts, destruction, failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline, with};
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use crate::states::manual::ManualTofu;
use crate::trust::{check, result};
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

#[track_caller]
pub(crate) fn docker(arguments: &[&str]) -> String {
    try_docker(arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// The engine's answer, or its refusal.
pub(crate) fn try_docker(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("timeout")
        .args(["30", "docker", "--host", bed().get("DOCKER_HOST")])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The only task of a deployment, and the name of its container.
pub(crate) async fn task(site: &Site, id: &str) -> (Value, String) {
    let mut tasks = site.place.account().tasks(id).await;
    assert_eq!(tasks.len(), 1, "one attempt has one task: {tasks:#?}");
    let task = tasks.remove(0);
    let name = task["taskArn"].as_str().unwrap().rsplit('/').next().unwrap();
    let name = format!("ecs-{name}");
    (task, name)
}

/// The containers of this name, also those that have ended.
fn containers(name: &str) -> Vec<String> {
    let filter = format!("name={name}");
    let listed = docker(&["ps", "--all", "--filter", &filter, "--format", "{{.Image}}"]);
    listed.lines().map(str::to_owned).collect()
}

/// Waits until a deployment's task has stopped and its container is gone; returns the task.
async fn is_gone(site: &Site, id: &str) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let (task, name) = task(site, id).await;
        let left = containers(&name);
        if task["lastStatus"] == "STOPPED" && left.is_empty() {
            return task;
        }
        assert!(Instant::now() < deadline, "{left:?} are left of {task:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A person who works on the environment's state in the bucket.
async fn manual_tofu(site: &Site) -> ManualTofu {
    let environment = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    let backend = Account::backend(environment["uuid"].as_str().unwrap());
    ManualTofu::with(&backend, site.place.account().bucket_variables())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_in_tasks_of_ecs() {
    let site = Site::new(Kind::Ecs).await;
    let first = site.deploy(inline(THIRTY)).await;
    let id = first.id.to_string();
    assert_eq!(counts(&first), (30, 0, 0));
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("hello 0").into()));
    assert_eq!(outputs["count"].value, Some(json!(30).into()));
    let log = site.log(&id).await;
    assert!(log.contains("tofu apply"), "its log came: {log}");
    let task = is_gone(&site, &id).await;
    assert_eq!(task["containers"][0]["exitCode"], 0, "{task:#}");
    assert!(task["containers"][0]["runtimeId"].is_string(), "Docker ran it: {task:#}");

    let manual = manual_tofu(&site).await;
    assert_eq!(manual.state().instances, 30, "the state is in the bucket");
    assert_eq!(manual.lock(), None);

    let second = site.deploy(with(inline(THIRTY), "greeting", "good day")).await;
    assert_eq!(counts(&second), (0, 30, 0), "the second deployment knows what the first one made");
    let destroyed = site.run(&destruction(ENV)).await;
    assert_succeeded(&destroyed);
    assert_eq!(counts(&destroyed), (0, 0, 30));
    is_gone(&site, &destroyed.id.to_string()).await;
    assert_eq!(manual.state().instances, 0);
    let registered = site.place.account().bodies("RegisterTaskDefinition").await;
    assert_eq!(registered.len(), 1, "one runner, one definition: {registered:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_accepts_the_runner_that_it_trusts_and_no_other() {
    let site = Site::untrusted(Kind::Ecs, |_| {}).await;
    let trust = site.client.get(&["runners", RUNNER, "trust"]).await.unwrap();
    let subject = trust["subject"].as_str().unwrap();
    let other = subject.replace(":runner:", ":runner:0");
    let others = serde_json::from_str(&trust.to_string().replace(subject, &other)).unwrap();
    site.place.account().configure(account::trusting(&others)).await;
    let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Config, "{message}");
    assert!(message.contains(subject), "{message}");
    let before = check(&site).await;
    assert_eq!(result(&before, "exchange").0, "failed", "{before:#?}");
    assert_eq!(site.place.account().bodies("RunTask").await, [""; 0], "it never came so far");

    site.trust().await;
    // A refusal is cached for ten seconds, for every caller.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let after = check(&site).await;
        if after.succeeded == Some(true) {
            break;
        }
        assert!(Instant::now() < deadline, "{after:#?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let id = site.deploy(inline(THIRTY)).await.id.to_string();
    is_gone(&site, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_task() {
    let site = Site::new(Kind::Ecs).await;
    let id = accept_slow(&site).await;
    let (running, name) = task(&site, &id).await;
    assert_eq!(running["lastStatus"], "RUNNING", "{running:#}");
    assert_eq!(containers(&name), [bed().get("RUNNER_IMAGE")]);
    let asked = Instant::now();
    assert_eq!(site.client.cancel(&id).await.unwrap().status, "cancelling");
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}: {ended:#?}\n{}", site.log(&id).await);
    is_gone(&site, &id).await;
    assert_eq!(manual_tofu(&site).await.lock(), None);
    let next = site.deploy(inline(THIRTY)).await;
    assert_eq!(counts(&next), (30, 0, 2), "what was made is known: {next:#?}");
    is_gone(&site, &next.id.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_killed_during_the_apply_ends_once_and_its_lock_is_broken_with_proof() {
    let site = Site::new(Kind::Ecs).await;
    let id = accept_slow(&site).await;
    let (_, name) = task(&site, &id).await;
    docker(&["kill", "--signal", "KILL", &name]);
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "failed", "{ended:#?}");
    assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated: {ended:#?}");
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Lost, "{message}");
    assert_eq!(is_gone(&site, &id).await["containers"][0]["exitCode"], 137);
    let left = manual_tofu(&site).await.lock().expect("what was killed has left its lock");

    let next = site.deploy(inline(THIRTY)).await;
    let log = site.log(&next.id.to_string()).await;
    let proof = format!("the job of attempt 1 of deployment {id} is gone since");
    let broken = log.lines().find(|line| line.contains(&format!("breaking the lock {left} of")));
    assert!(broken.is_some_and(|line| line.contains(&proof)), "{log}");
    is_gone(&site, &next.id.to_string()).await;
    assert_eq!(manual_tofu(&site).await.lock(), None);
    let records = site.client.list(&["audit-records"], &[]).await.unwrap();
    let breaks: Vec<_> =
        records.iter().filter(|record| record["action"] == "state_lock.break").collect();
    assert_eq!(breaks.len(), 1, "{breaks:#?}");
    assert!(breaks[0]["by_right"].as_str().unwrap().starts_with(&proof), "{breaks:#?}");
    assert_eq!(&site.client.deployment(&id).await.unwrap(), &ended, "an end never changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_to_ecs_contains_a_token_or_a_payload() {
    let site = Site::new(Kind::Ecs).await;
    let id = site.deploy(canaries::module(&site).await).await.id.to_string();
    is_gone(&site, &id).await;
    let account = site.place.account();
    let mut sent = account.bodies("RegisterTaskDefinition").await;
    let registered = sent.len();
    sent.extend(account.bodies("RunTask").await);
    assert!(registered > 0 && sent.len() > registered, "both were called: {sent:#?}");
    let given = account.secrets().await;
    canaries::assert_none_in(&sent, &site, &given);
}
