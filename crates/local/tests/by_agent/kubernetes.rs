//! Jobs of a real cluster, through an agent that has the rights in the documentation and no others.

use crate::bed::{ACCOUNT, ACT_IMAGE, Facts};
use crate::behaviour::{Act, behaves};
use crate::check;
use crate::restart;
use crate::through_agent::{Bed, Setup, ThroughAgent, settings};
use canyon_dispatch::JobRef;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// A namespace, and the kubeconfig of the agent.
struct Cluster {
    bed: crate::bed::Bed,
    _kubeconfig: TempDir,
}

impl Bed for Cluster {
    fn prepare(&self, job: &JobRef, act: Act) {
        self.bed.notes.prepare_job(job, act);
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.bed.notes.noted_by(job, what)
    }

    fn lives(&self, job: &JobRef) -> bool {
        let label = format!("canyon.dev/deployment={}", job.deployment);
        let (pods, its) = (self.bed.api::<Pod>(), ListParams::default().labels(&label));
        let found = block_in_place(|| Handle::current().block_on(pods.list(&its))).unwrap();
        !found.items.iter().all(has_ended)
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn kubeconfig(token: &str) -> Value {
    let facts = Facts::of_cluster();
    let cluster = json!({
        "server": facts.get("SERVER"), "certificate-authority-data": facts.authority(),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{ "name": "here", "cluster": cluster }],
        "users": [{ "name": "agent", "user": { "token": token } }],
        "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "agent" } }],
    })
}

async fn setup() -> Setup<Cluster> {
    let bed = crate::bed::Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(&file, kubeconfig(&bed.token).to_string()).unwrap();
    let job = json!({
        "namespace": bed.namespace, "service_account": ACCOUNT,
        // A pod that was asked to end keeps its grace period, even if it is killed afterwards.
        "timeouts": { "stop_seconds": 5 },
    });
    let definition = json!({
        "runner_configuration": { "type": "kubernetes-agent", "job": job },
        "state_storage_configuration": { "type": "kubernetes", "namespace": bed.namespace },
    });
    let data = [
        ("AUTH_TYPE", "kube_config"),
        ("KUBE_CONFIG_PATH", file.to_str().unwrap()),
        ("IMAGE", ACT_IMAGE),
    ];
    let variables = settings("kubernetes", Some(&bed.notes), &data);
    Setup { bed: Cluster { bed, _kubeconfig: folder }, definition, variables }
}

behaves! { ThroughAgent::start(setup().await).await }

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_goes_on_with_its_job_when_it_is_back() {
    restart::the_agent_finds_its_job(&mut ThroughAgent::start(setup().await).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_succeeds_and_reports_each_wrong_setting() {
    let mut setup = setup().await;
    check::succeeds(&setup).await;
    let other = [("CANYON_JOB_DISPATCHER_DATA_KUBE_CONFIG_CONTEXT", "other")];
    check::reports_the_fault(&setup, &other, "no context `other`").await;
    setup.definition["runner_configuration"]["job"]["namespace"] = "default".into();
    check::reports_the_fault(&setup, &[], "namespace `default`").await;
}
