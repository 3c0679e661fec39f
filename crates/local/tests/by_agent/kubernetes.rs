//! Jobs of a real cluster, by its agent, which has the rights that the documentation asks for and no others.

use crate::agent::Agent;
use crate::bed::{ACCOUNT, ACT_IMAGE, Facts};
use crate::behaviour::{Act, behaves};
use crate::canyon::Canyon;
use crate::check;
use crate::far::{Bed, Far, Place, settings};
use canyon_dispatch::JobRef;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A namespace, and the file by which the agent finds the cluster.
struct Cluster {
    bed: crate::bed::Bed,
    _kubeconfig: TempDir,
}

impl Bed for Cluster {
    fn tell(&self, job: &JobRef, act: Act) {
        Bed::tell(&self.bed.notes, job, act);
    }

    fn noted(&self, far: (&Canyon, &Agent), job: &JobRef, what: &str) -> usize {
        Bed::noted(&self.bed.notes, far, job, what)
    }
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

async fn place() -> Place<Cluster> {
    let bed = crate::bed::Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(&file, kubeconfig(&bed.token).to_string()).unwrap();
    let job = json!({
        "namespace": bed.namespace, "service_account": ACCOUNT,
        // A pod that has been asked keeps its grace, also when it is killed.
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
    Place { bed: Cluster { bed, _kubeconfig: folder }, definition, variables }
}

behaves! { Far::at(place().await).await }

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_all_good_here_and_names_what_is_wrong_elsewhere() {
    let mut place = place().await;
    check::finds_all_good(&place).await;
    let other = [("CANYON_JOB_DISPATCHER_DATA_KUBE_CONFIG_CONTEXT", "other")];
    check::names_what_is_wrong(&place, &other, "no context `other`").await;
    place.definition["runner_configuration"]["job"]["namespace"] = "default".into();
    check::names_what_is_wrong(&place, &[], "namespace `default`").await;
}
