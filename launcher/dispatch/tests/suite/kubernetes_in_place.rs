//! How an agent finds its own cluster, and the defaults of the cluster's owner.

use crate::bed::{ACCOUNT, ACT_IMAGE, Bed, Facts, base64};
use crate::behaviour::{Act, Platform, behaves, new_job, until};
use crate::kubernetes::{acting, name_of};
use canyon_dispatch::kubernetes::{ClusterSource, JobDefaults, KubernetesPlatform};
use canyon_dispatch::{Dispatcher, JobRef, Launch, Platform as _, StopMode};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// The service account folder of a pod with the namespace's account `canyon`.
pub(crate) fn account_folder(token: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), token).unwrap();
    std::fs::copy(Facts::of_cluster().get("CA_FILE"), folder.path().join("ca.crt")).unwrap();
    folder
}

pub(crate) fn in_cluster(folder: &Path) -> ClusterSource {
    let server = Facts::of_cluster().get("SERVER").to_owned();
    ClusterSource::InCluster { server, folder: folder.to_owned() }
}

pub(crate) fn defaults() -> JobDefaults {
    JobDefaults { image: Some(ACT_IMAGE.to_owned()), ..JobDefaults::default() }
}

fn configuration(bed: &Bed) -> Value {
    let job = json!({
        "namespace": bed.namespace, "service_account": ACCOUNT, "timeouts": { "stop_seconds": 5 },
    });
    json!({ "type": "kubernetes-agent", "job": job })
}

pub(crate) fn kind_of(
    bed: &Bed,
    source: ClusterSource,
    defaults: JobDefaults,
) -> Arc<dyn Dispatcher> {
    let platform = Arc::new(KubernetesPlatform::for_agent(source, defaults));
    platform.dispatcher(&bed.target(configuration(bed)))
}

/// The agent's cluster, with its pod's service account.
struct InPod {
    bed: Bed,
    folder: TempDir,
}

impl InPod {
    async fn new() -> Self {
        let bed = Bed::new().await;
        let folder = account_folder(&bed.token);
        Self { bed, folder }
    }
}

impl Platform for InPod {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        kind_of(&self.bed, in_cluster(self.folder.path()), defaults())
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        acting(&self.bed, job, act.word())
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.bed.notes.count(&name_of(job), what)
    }
}

behaves! { InPod::new().await }

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_token_is_read_at_once() {
    let bed = Bed::new().await;
    let folder = account_folder("of-no-account");
    let kind = kind_of(&bed, in_cluster(folder.path()), defaults());
    let error = kind.jobs().await.unwrap_err().to_string();
    assert!(
        error.contains("401 Unauthorized") && error.contains("token of its service account"),
        "{error}"
    );
    std::fs::write(folder.path().join("token"), &bed.token).unwrap();
    kind.jobs().await.unwrap();
    std::fs::write(folder.path().join("token"), "of-no-account").unwrap();
    std::fs::remove_file(folder.path().join("ca.crt")).unwrap();
    // An existing client continues; a new client names the missing file.
    let error = kind_of(&bed, in_cluster(folder.path()), defaults()).jobs().await.unwrap_err();
    assert!(error.to_string().contains("ca.crt"), "{error}");
}

/// A kubeconfig with the contexts `good` and `other`; `user` is that of the first.
fn kubeconfig(folder: &Path, cluster: &Value, user: &Value) -> ClusterSource {
    let path = folder.join("config");
    let context = |name: &str, user: &str| json!({ "name": name, "context": { "cluster": "c", "user": user } });
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "other",
        "clusters": [{ "name": "c", "cluster": cluster }],
        "users": [
            { "name": "u", "user": user },
            { "name": "o", "user": { "token": "of-no-account" } },
        ],
        "contexts": [context("good", "u"), context("other", "o")],
    });
    std::fs::write(&path, text.to_string()).unwrap();
    ClusterSource::KubeConfig { path, context: Some("good".to_owned()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_is_used_by_its_context_and_may_name_a_program() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let facts = Facts::of_cluster();
    let cluster =
        json!({ "server": facts.get("SERVER"), "certificate-authority": facts.get("CA_FILE") });
    let program = folder.path().join("login");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": { "token": bed.token },
    });
    std::fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{credential}\nEND\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let login = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": program,
        "interactiveMode": "Never",
    }});
    let by_program = kubeconfig(folder.path(), &cluster, &login);
    kind_of(&bed, by_program, defaults()).jobs().await.unwrap();

    let source = kubeconfig(folder.path(), &cluster, &json!({ "token": bed.token }));
    kind_of(&bed, source.clone(), defaults()).jobs().await.unwrap();
    let ClusterSource::KubeConfig { path, .. } = source else { panic!() };
    let error_with = async |context: Option<&str>| {
        let context = context.map(str::to_owned);
        let source = ClusterSource::KubeConfig { path: path.clone(), context };
        kind_of(&bed, source, defaults()).jobs().await.unwrap_err().to_string()
    };
    let current = error_with(None).await;
    assert!(
        current.contains("401 Unauthorized"),
        "the current context is another user's: {current}"
    );
    let missing = error_with(Some("third")).await;
    assert!(missing.contains("`third`") && missing.contains("good"), "{missing}");

    let insecure = json!({ "server": facts.get("SERVER"), "insecure-skip-tls-verify": true });
    let source = kubeconfig(folder.path(), &insecure, &json!({ "token": bed.token }));
    let error = kind_of(&bed, source, defaults()).jobs().await.unwrap_err().to_string();
    assert!(error.contains("insecure-skip-tls-verify"), "{error}");
    assert!(!error.contains(&bed.token));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_signs_in_with_a_client_certificate() {
    let bed = Bed::new().await;
    let facts = Facts::of_cluster();
    let folder = tempfile::tempdir().unwrap();
    let user = format!("canyon-of-{}", bed.namespace);
    let script = r#"
        set -eu
        openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout key -out csr
        echo extendedKeyUsage=clientAuth >extensions
        openssl x509 -req -in csr -CA "$2" -CAkey "$3" -CAcreateserial -CAserial serial -days 1 \
            -extfile extensions -out pem
    "#;
    let made = Command::new("sh")
        .args(["-c", script, "sh", &user, facts.get("CA_FILE"), facts.get("CA_KEY_FILE")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let read = |name: &str| base64(&std::fs::read(folder.path().join(name)).unwrap());
    let source = ClusterSource::Certificate {
        server: facts.get("SERVER").to_owned(),
        authority: facts.authority(),
        certificate: read("pem"),
        key: read("key").into(),
    };
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user });
    let change = Patch::Merge(json!({ "subjects": [subject] }));
    bed.api::<RoleBinding>().patch("canyon", &PatchParams::default(), &change).await.unwrap();
    let kind = kind_of(&bed, source, defaults());
    until("the permission is there", async || kind.jobs().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_has_the_same_id_for_agents_with_the_same_permissions() {
    let bed = Bed::new().await;
    let facts = Facts::of_cluster();
    let path = Path::new(facts.get("FOLDER")).join("kubeconfig");
    let admin = ClusterSource::KubeConfig { path, context: None };
    let system: Namespace = Api::all(bed.admin.clone()).get("kube-system").await.unwrap();
    let place =
        async |source| KubernetesPlatform::for_agent(source, defaults()).platform_id().await;
    let uid = format!("kubernetes:{}", system.metadata.uid.unwrap());
    assert_eq!(place(admin).await.unwrap(), uid);
    // An agent that may not read the uid uses the cluster's address and authority.
    let folder = account_folder(&bed.token);
    let first = place(in_cluster(folder.path())).await.unwrap();
    assert_eq!(place(in_cluster(folder.path())).await.unwrap(), first);
    assert!(first.starts_with("kubernetes:") && first != uid, "{first}");
    let invalid = account_folder("of-no-account");
    let error = place(in_cluster(invalid.path())).await.unwrap_err();
    assert!(error.to_string().contains("401 Unauthorized"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runners_template_overrides_the_owners_defaults() {
    let bed = Bed::new().await;
    let folder = account_folder(&bed.token);
    let text = str::to_owned;
    let owners = JobDefaults {
        memory_request: Some(text("16Mi")),
        memory_limit: Some(text("64Mi")),
        run_as_user: Some(65532),
        annotations: BTreeMap::from([(text("example.com/owner"), text("platform"))]),
        labels: BTreeMap::from([(text("team"), text("platform")), (text("cost"), text("1"))]),
        host_aliases: BTreeMap::from([(text("10.1.2.3"), vec![text("git.internal")])]),
        ..defaults()
    };
    owners.check().unwrap();
    let platform =
        Arc::new(KubernetesPlatform::for_agent(in_cluster(folder.path()), owners.clone()));
    let mut runners = configuration(&bed);
    runners["job"]["pod_template"] = json!({ "metadata": { "labels": { "team": "shop" } } });
    let kind = platform.dispatcher(&bed.target(runners));
    let launch = acting(&bed, new_job(), "until-asked");
    kind.start(&launch).await.unwrap();
    let job: Job = bed.api::<Job>().get(&name_of(&launch.job)).await.unwrap();
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    let pod = job.spec.unwrap().template;
    let metadata = pod.metadata.unwrap();
    let labels = metadata.labels.unwrap();
    assert_eq!((&*labels["team"], &*labels["cost"]), ("shop", "1"));
    assert_eq!(metadata.annotations.unwrap()["example.com/owner"], "platform");
    let spec = serde_json::to_value(pod.spec.unwrap()).unwrap();
    let resources = json!({ "requests": { "memory": "16Mi" }, "limits": { "memory": "64Mi" } });
    assert_eq!(spec["containers"][0]["resources"], resources);
    assert_eq!(spec["hostAliases"], json!([{ "ip": "10.1.2.3", "hostnames": ["git.internal"] }]));

    let elsewhere = JobDefaults { namespace: Some(text("elsewhere")), ..owners };
    let kind = kind_of(&bed, in_cluster(folder.path()), elsewhere);
    let error = kind.start(&acting(&bed, new_job(), "writes")).await.unwrap_err();
    assert!(error.to_string().contains("only in namespace `elsewhere`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_refuses_a_runner_whose_jobs_canyon_itself_launches() {
    let bed = Bed::new().await;
    let folder = account_folder(&bed.token);
    let platform = Arc::new(KubernetesPlatform::for_agent(in_cluster(folder.path()), defaults()));
    let mut runners = bed.configuration();
    runners["cluster"]["auth"] = json!({ "oidc": { "audience": "a" } });
    let kind = platform.dispatcher(&bed.target(runners));
    let error = kind.start(&acting(&bed, new_job(), "writes")).await.unwrap_err();
    assert!(error.to_string().contains("launched by Canyon itself"), "{error}");
    let kind = bed.dispatcher(configuration(&bed));
    let error = kind.start(&acting(&bed, new_job(), "writes")).await.unwrap_err();
    assert!(error.to_string().contains("need an agent"), "{error}");
}
