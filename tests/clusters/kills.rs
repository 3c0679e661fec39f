//! `kill -9` of Canyon, of the node's kubelet, of the pod and of its processes: each deployment ends once, and the next
//! one finds the lock free.

use crate::cancel::accept_slow;
use crate::harness::bed::{Bed, bed};
use crate::harness::deployments::{assert_succeeded, end, failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline};
use crate::harness::pods::has_begun;
use crate::harness::processes::{self, Process};
use crate::harness::site::{ENV, Site};
use canyon_api::deployment::Deployment;
use canyon_domain::failure::FailureClass;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

/// Ten resources that take a moment each.
const STEPS: &str = r#"
resource "terraform_data" "step" {
  count = 10
  provisioner "local-exec" {
    command = "sleep 0.3"
  }
}
"#;

/// A resource that is seen running, and outlasts a kubelet's absence.
const LONG: &str = r#"
resource "terraform_data" "step" {
  provisioner "local-exec" {
    command = "sleep 12"
  }
}
"#;

/// The deployment keeps its end, and the environment accepts the next one.
async fn ended_once(site: &Site, ended: &Deployment) {
    let id = ended.id.to_string();
    site.no_pod_runs(&id).await;
    assert_succeeded(&site.deploy(inline(THIRTY)).await);
    site.assert_no_lock();
    assert_eq!(&site.client.deployment(&id).await.unwrap(), ended, "an end never changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canyon_that_is_killed_at_any_moment_loses_no_pod_and_starts_none_twice() {
    let mut site = Site::new(Kind::Oidc).await;
    let mut seen = BTreeSet::new();
    for milliseconds in [0, 20, 60, 150, 400, 900, 1_600, 2_500, 4_000] {
        let id = site.accept(&request(ENV, Some(inline(STEPS)))).await;
        sleep(Duration::from_millis(milliseconds)).await;
        let before = site.client.deployment(&id).await.unwrap();
        site.server.kill();
        sleep(Duration::from_millis(300)).await;
        site.server.restart().await;
        let moment = format!("killed while `{}`", before.status);
        seen.insert(before.status);
        let ended = end(&site.client, &id).await;
        assert_eq!(ended.status, "succeeded", "{moment}: {ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "{moment}: {ended:#?}");
        assert!(site.pods_of(&id).len() <= 1, "{moment}: {:#?}", site.pods_of(&id));
        site.assert_no_lock();
    }
    assert!(seen.len() > 1, "it was always `{seen:?}`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_during_the_apply_ends_the_deployment_once_and_frees_the_lock() {
    let site = Site::new(Kind::Oidc).await;
    let id = accept_slow(&site).await;
    let pod = site.pod(&id, "that runs", has_begun).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    bed().kubectl(&["-n", &site.namespace.0, "delete", "pod", name, "--wait=false"], "");
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "failed", "{ended:#?}");
    assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated: {ended:#?}");
    ended_once(&site, &ended).await;
}

/// The processes of a pod's containers, by the cgroup in which the node put them.
fn processes_of(pod: &str) -> Vec<Process> {
    let is_in = |process: &Process| {
        let path = format!("/proc/{}/cgroup", process.pid);
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(pod))
    };
    processes::all().into_iter().filter(is_in).collect()
}

/// `kill -9` of the runner in the pod of a deployment.
pub(crate) async fn kill_runner(site: &Site, id: &str) {
    let pod = site.pod(id, "that runs", has_begun).await;
    let found = processes_of(pod["metadata"]["uid"].as_str().unwrap());
    let runner = found.iter().find(|process| process.name == "canyon-runner");
    let runner = runner.unwrap_or_else(|| panic!("no runner among {found:?}"));
    processes::signal(runner.pid, Signal::KILL);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_killed_during_the_apply_ends_the_deployment_once_and_frees_the_lock() {
    let site = Site::new(Kind::Oidc).await;
    let id = accept_slow(&site).await;
    kill_runner(&site, &id).await;
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "failed", "{ended:#?}");
    assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated: {ended:#?}");
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Lost, "{message}");
    // A killed process could not release the lock.
    ended_once(&site, &ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_is_down_for_a_while_ends_nothing() {
    let site = Site::new(Kind::Oidc).await;
    let running = site.accept(&request(ENV, Some(inline(LONG)))).await;
    site.pod(&running, "that runs", has_begun).await;
    Bed::kubelet("stop");
    sleep(Duration::from_secs(6)).await;
    Bed::kubelet("start");
    let ended = site.end(&running).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    ended_once(&site, &ended).await;
}
