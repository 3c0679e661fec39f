//! The lock of a state in the cluster, which is a Lease without an expiry.

#[path = "../e2e/states/manual.rs"]
#[allow(dead_code, reason = "the tests of other storage use more of it")]
pub(crate) mod manual;

use crate::cancel::accept_slow;
use crate::harness::bed::bed;
use crate::harness::deployments::{failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::inline;
use crate::harness::processes;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_domain::failure::FailureClass;
use manual::ManualTofu;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

/// The lock on the environment's state: its id, and its holder as `user@host`.
fn lock(site: &Site) -> Option<(String, String)> {
    site.objects("leases").iter().find_map(|lease| {
        let id = lease["spec"]["holderIdentity"].as_str()?.to_owned();
        let info = &lease["metadata"]["annotations"]["app.terraform.io/lock-info"];
        let info: Value = serde_json::from_str(info.as_str()?).unwrap();
        Some((id, info["Who"].as_str().unwrap().to_owned()))
    })
}

/// `kill -9` of every process in a pod, from its node.
fn kill_pod(pod: &Value) {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let is_its = |pid: i32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.contains(uid) || groups.contains(&uid.replace('-', "_"))
    };
    let all = processes::all().into_iter();
    let runners: Vec<_> =
        all.filter(|process| process.name == "canyon-runner" && is_its(process.pid)).collect();
    assert_eq!(runners.len(), 1, "the runner is the first process of its pod: {runners:?}");
    processes::signal(runners[0].pid, Signal::KILL);
}

async fn breaks(site: &Site) -> Vec<Value> {
    let records = site.client.list(&["audit-records"], &[]).await.unwrap();
    records.into_iter().filter(|record| record["action"] == "state_lock.break").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_killed_pod_is_broken_once_the_pod_is_proved_dead() {
    let site = Site::new(Kind::Oidc).await;
    let id = accept_slow(&site).await;
    let pods = site.pods_of(&id);
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    kill_pod(&pods[0]);
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "failed", "{ended:#?}");
    let (left, who) = lock(&site).expect("what was killed has left its lock");
    assert!(who.ends_with(&format!("@{name}")), "{who} is not {name}");

    let next = site.deploy(inline("resource \"terraform_data\" \"x\" {}")).await;
    let log = site.log(&next.id.to_string()).await;
    let proof = format!("the job of attempt 1 of deployment {id} is gone since");
    assert!(log.contains(&format!("breaking the lock {left} of `{who}`: {proof}")), "{log}");
    site.assert_no_lock();
    let records = breaks(&site).await;
    assert_eq!(records.len(), 1, "{records:#?}");
    assert!(records[0]["by_right"].as_str().unwrap().starts_with(&proof), "{records:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_person_in_the_cluster_is_never_broken() {
    let site = Site::new(Kind::Oidc).await;
    let module = || inline("resource \"terraform_data\" \"x\" {}");
    site.deploy(module()).await;
    let environment = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    let secrets = site.objects("secrets");
    let labels = secrets.iter().find_map(|secret| {
        let labels = &secret["metadata"]["labels"];
        labels["tfstateSecretSuffix"].as_str()
    });
    let suffix = labels.expect("the state is there");
    assert!(suffix.starts_with(environment["uuid"].as_str().unwrap()), "{suffix}");
    let kubeconfig = bed().file_beside("kubeconfig");
    let backend = json!({ "terraform": { "backend": { "kubernetes": {
        "secret_suffix": suffix, "namespace": site.namespace.0, "config_path": kubeconfig,
    } } } });
    let manual = ManualTofu::with(&backend, BTreeMap::new());
    let mut holder = manual.hold().await;
    let (held, who) = lock(&site).expect("it is held");

    let ended = site.run(&request(ENV, Some(module()))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::User, "{message}");
    for part in
        [format!("`{who}` since 20"), format!("force-unlock {PROJECT} {ENV} {held} --force")]
    {
        assert!(message.contains(&part), "no `{part}` in: {message}");
    }
    assert!(holder.is_alive());
    assert_eq!(lock(&site), Some((held, who)), "it is not broken");
    assert_eq!(breaks(&site).await, [Value::Null; 0]);
}
