//! Reasons for which a pod never runs or is killed: each ends with a failure class and a message
//! that names the thing.

use crate::bed::{ACCOUNT, Bed};
use crate::behaviour::{new_job, until};
use crate::kubernetes::acting;
use canyon_dispatch::{Dispatcher, JobRef, StopMode};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ServiceAccount};
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Starts a job whose `canyon-runner` has the additional fields of `container`.
async fn start(bed: &Bed, act: &str, container: Value) -> (Arc<dyn Dispatcher>, JobRef) {
    let mut container = container;
    container["name"] = json!("canyon-runner");
    let mut configuration = bed.configuration();
    configuration["job"]["pod_template"] = json!({ "spec": { "containers": [container] } });
    configuration["job"]["timeouts"] = json!({ "stop_seconds": 5 });
    let kind = bed.dispatcher(configuration);
    let launch = acting(bed, new_job(), act);
    kind.start(&launch).await.unwrap();
    (kind, launch.job)
}

/// How the job ends, and the last reason to wait before that.
pub(crate) async fn end(kind: &dyn Dispatcher, job: &JobRef) -> (Option<Failure>, String) {
    let mut waited = String::new();
    for _ in 0..600 {
        match kind.observe(job).await {
            Observation::Gone(reason) => return (reason, waited),
            Observation::Waiting(reason) => waited = reason,
            Observation::Alive | Observation::Queued(_) | Observation::Unknown(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it did not end; its last reason to wait: {waited}");
}

async fn waits_for(kind: &dyn Dispatcher, job: &JobRef, what: &str) {
    until(what, async || {
        matches!(kind.observe(job).await, Observation::Waiting(reason) if reason.contains(what))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_ends_with_the_registrys_words() {
    let bed = Bed::new().await;
    let image = format!("{}/nobody/has-this:1", crate::bed::Facts::of_cluster().get("REGISTRY"));
    let began = std::time::Instant::now();
    let (kind, job) = start(&bed, "writes", json!({ "image": image })).await;
    let (failure, waited) = end(&*kind, &job).await;
    let failure = failure.unwrap();
    assert_eq!(failure.class, FailureClass::ImagePull, "{failure:?}");
    assert!(failure.message.contains(&image), "{failure:?}");
    assert!(failure.message.contains("not found"), "{failure:?}");
    assert!(waited.contains(&image), "{waited}");
    // Kubernetes' times are whole seconds: the pod's recorded start may be up to one second early.
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    // A later observation gives the same reason, although the pod is gone.
    let again = kind.observe(&job).await;
    assert!(
        matches!(&again, Observation::Gone(Some(failure)) if failure.class == FailureClass::ImagePull),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_image_name_ends_at_once() {
    let bed = Bed::new().await;
    let began = std::time::Instant::now();
    let (kind, job) = start(&bed, "writes", json!({ "image": "UPPER/CASE" })).await;
    let (failure, _) = end(&*kind, &job).await;
    assert_eq!(failure.unwrap().class, FailureClass::ImagePull);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_is_named() {
    let bed = Bed::new().await;
    let missing = json!({ "envFrom": [{ "secretRef": { "name": "cloud-login" } }] });
    let (kind, job) = start(&bed, "writes", missing).await;
    let failure = end(&*kind, &job).await.0.unwrap();
    assert_eq!(failure.class, FailureClass::Config);
    assert!(failure.message.contains(r#"secret "cloud-login" not found"#), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_service_account_is_named() {
    let bed = Bed::new().await;
    bed.api::<ServiceAccount>().delete(ACCOUNT, &DeleteParams::default()).await.unwrap();
    let (kind, job) = start(&bed, "writes", json!({})).await;
    let failure = end(&*kind, &job).await.0.unwrap();
    assert_eq!(failure.class, FailureClass::Config);
    assert!(failure.message.contains(r#"serviceaccount "canyon-runner" not found"#), "{failure:?}");
}

/// Whether the quota is in force; a new quota may still let a pod pass.
async fn is_quota_in_force(bed: &Bed) -> bool {
    let security = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": { "drop": ["ALL"] },
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let pod = json!({
        "metadata": { "name": "probe" },
        "spec": { "containers": [{ "name": "probe", "image": "probe", "securityContext": security }] },
    });
    let tried = PostParams { dry_run: true, ..PostParams::default() };
    let answer = bed.api::<Pod>().create(&tried, &serde_json::from_value(pod).unwrap()).await;
    answer.is_err_and(|error| error.to_string().contains("exceeded quota"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_quota_is_waited_for() {
    let bed = Bed::new().await;
    bed.create::<ResourceQuota>(json!({
        "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } },
    }))
    .await;
    until("the quota is in force", async || is_quota_in_force(&bed).await).await;
    let (kind, job) = start(&bed, "writes", json!({})).await;
    waits_for(&*kind, &job, "exceeded quota").await;
    kind.stop(&job, StopMode::Graceful).await.unwrap();
    end(&*kind, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_takes_waits_with_the_schedulers_message() {
    let bed = Bed::new().await;
    let huge = json!({ "resources": { "requests": { "cpu": "10000" } } });
    let (kind, job) = start(&bed, "writes", huge).await;
    waits_for(&*kind, &job, "Insufficient cpu").await;
    kind.stop(&job, StopMode::Graceful).await.unwrap();
    end(&*kind, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_needs_too_much_memory_ends_as_oom() {
    let bed = Bed::new().await;
    let small = json!({ "resources": { "limits": { "memory": "16Mi" } } });
    let (kind, job) = start(&bed, "memory", small).await;
    let failure = end(&*kind, &job).await.0.unwrap();
    assert_eq!(failure.class, FailureClass::Oom, "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_pod_ends_as_evicted() {
    let bed = Bed::new().await;
    let (kind, job) = start(&bed, "stubborn", json!({})).await;
    until("it runs", async || kind.observe(&job).await == Observation::Alive).await;
    let pods = bed.api::<Pod>();
    let name =
        pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    pods.evict(&name, &EvictParams::default()).await.unwrap();
    let failure = end(&*kind, &job).await.0.unwrap();
    assert_eq!(failure.class, FailureClass::Evicted, "{failure:?}");
}
