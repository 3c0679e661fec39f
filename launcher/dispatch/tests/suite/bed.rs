//! A namespace of the real cluster that `scripts/cluster up` has started, with a runner in it.

use crate::behaviour::until;
use crate::notes::Notes;
use canyon_dispatch::kubernetes::{KubernetesPlatform, LocalClusters};
use canyon_dispatch::{Dispatcher, Platform as _, Target};
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::runner::RunnerDefinition;
use canyon_identity::federation::{Endpoints, Federation};
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::Issuer;
use canyon_identity::system::System;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// The image of `act.c`.
pub(crate) const ACT_IMAGE: &str = "canyon.test/act:1";
/// The image of an `act.c` that cannot bring itself into another container.
pub(crate) const ACT_WITHOUT_INJECT_IMAGE: &str = "canyon.test/act-without-inject:1";
/// An image of a user: it has no program, a user of its own, and an entry point that does not exist.
pub(crate) const USERS_IMAGE: &str = "canyon.test/users-image:1";
/// The same, for root.
pub(crate) const ROOTS_IMAGE: &str = "canyon.test/roots-image:1";
/// The service account of jobs.
pub(crate) const ACCOUNT: &str = "canyon-runner";

/// The variables that `scripts/cluster up` has written.
pub(crate) struct Facts(HashMap<String, String>);

impl Facts {
    pub(crate) fn of_cluster() -> &'static Self {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        FACTS.get_or_init(|| {
            let missing =
                "CANYON_TEST_CLUSTER must name the folder that `scripts/cluster up` fills";
            let folder =
                std::env::var("CANYON_TEST_CLUSTER").unwrap_or_else(|_| panic!("{missing}"));
            let text = std::fs::read_to_string(Path::new(&folder).join("env"))
                .unwrap_or_else(|_| panic!("{missing}"));
            let pairs = text.lines().filter_map(|line| line.split_once('='));
            let mut facts: HashMap<_, _> =
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            facts.insert("FOLDER".to_owned(), folder);
            Facts(facts)
        })
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("the cluster's `env` has no {name}"))
    }

    /// The certificate authority of the API server, in the form of a runner's definition.
    pub(crate) fn authority(&self) -> String {
        base64(&std::fs::read(self.get("CA_FILE")).unwrap())
    }

    pub(crate) async fn admin(&self) -> Client {
        let config =
            Kubeconfig::read_from(Path::new(self.get("FOLDER")).join("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        Client::try_from(Config::from_custom_kubeconfig(config, &options).await.unwrap()).unwrap()
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A namespace that is deleted at the end of the test.
pub(crate) struct Bed {
    pub(crate) namespace: String,
    pub(crate) admin: Client,
    pub(crate) notes: Notes,
    pub(crate) token: String,
    pub(crate) runner: RunnerUuid,
    platform: Arc<KubernetesPlatform>,
}

impl Bed {
    /// A namespace with exactly the accounts and permissions that the documentation asks for.
    pub(crate) async fn new() -> Self {
        let facts = Facts::of_cluster();
        tokio::task::spawn_blocking(|| act_image(facts)).await.unwrap();
        let admin = facts.admin().await;
        let namespace = format!("t-{}", Uuid::now_v7().simple());
        let bed = Self {
            admin: admin.clone(),
            notes: Notes::at(facts.get("NODE_ADDRESS")),
            token: grant(&admin, &namespace).await,
            namespace,
            runner: RunnerUuid(Uuid::now_v7()),
            platform: platform(LocalClusters::Allowed),
        };
        // Without its account, no pod is created.
        let account = json!({ "metadata": { "name": ACCOUNT } });
        bed.create::<ServiceAccount>(account).await;
        // The API server applies a binding a moment after it was created.
        let may = async || bed.dispatcher(bed.configuration()).jobs().await.is_ok();
        until("the rights are there", may).await;
        bed
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + serde::Serialize,
        K::DynamicType: Default,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// `job` and `cluster` of a runner in this namespace, for tests to change.
    pub(crate) fn configuration(&self) -> Value {
        json!({
            "type": "kubernetes",
            "job": { "namespace": self.namespace, "service_account": ACCOUNT },
            "cluster": {
                "cluster_data": {
                    "certificate_authority_data": Facts::of_cluster().authority(),
                    "server": Facts::of_cluster().get("SERVER"),
                },
                "auth": { "service_account_token": self.token },
            },
        })
    }

    pub(crate) fn dispatcher(&self, configuration: Value) -> Arc<dyn Dispatcher> {
        self.platform.dispatcher(&self.target(configuration))
    }

    pub(crate) fn target(&self, configuration: Value) -> Arc<Target> {
        let state = json!({ "type": "kubernetes", "namespace": self.namespace });
        let mut definition = json!({ "state_storage_configuration": state });
        definition["runner_configuration"] = configuration;
        Arc::new(Target {
            org: OrgUuid(Uuid::from_u128(7)),
            org_id: "acme".parse().unwrap(),
            agent: None,
            runner: self.runner,
            runner_id: "in-cluster".parse().unwrap(),
            definition: RunnerDefinition::parse(definition).unwrap(),
        })
    }

    /// The dispatcher of a Canyon that runs jobs for others.
    pub(crate) fn dispatcher_of_service(&self, configuration: Value) -> Arc<dyn Dispatcher> {
        platform(LocalClusters::Refused).dispatcher(&self.target(configuration))
    }

    pub(crate) fn platform(&self) -> &Arc<KubernetesPlatform> {
        &self.platform
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let facts = Facts::of_cluster();
        let kubeconfig = Path::new(facts.get("FOLDER")).join("kubeconfig");
        let _ = Command::new(facts.get("KUBECTL"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["delete", "namespace", "--wait=false", "--ignore-not-found", &self.namespace])
            .output();
    }
}

fn platform(local: LocalClusters) -> Arc<KubernetesPlatform> {
    Arc::new(KubernetesPlatform::new(federation(), Some(ACT_IMAGE.to_owned()), local))
}

/// The issuer that the API server trusts.
pub(crate) fn issuer_of_canyon() -> Arc<Issuer> {
    let facts = Facts::of_cluster();
    let signer = Arc::new(FileSigner::new(Path::new(facts.get("ISSUER_KEY"))));
    let url = facts.get("ISSUER_URL");
    Arc::new(Issuer::new(url, signer, vec![], Arc::new(System), Arc::new(System)))
}

pub(crate) fn federation() -> Arc<Federation> {
    let endpoints = Endpoints::from_variables(&|_| None);
    Arc::new(Federation::new(issuer_of_canyon(), endpoints, Arc::new(System)))
}

/// Canyon's permissions in a namespace, as `infra/kubernetes` grants them.
pub(crate) fn rules() -> Value {
    json!([
        { "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"] },
        { "apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"] },
        { "apiGroups": [""], "resources": ["events"], "verbs": ["list"] },
        { "apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "create", "patch"] },
    ])
}

/// Creates the namespace and Canyon's account in it. Returns a token of the account.
async fn grant(admin: &Client, namespace: &str) -> String {
    let enforced = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let object = json!({ "metadata": { "name": namespace, "labels": enforced } });
    let how = PostParams::default();
    let object: Namespace = serde_json::from_value(object).unwrap();
    Api::all(admin.clone()).create(&how, &object).await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), namespace);
    let named = json!({ "metadata": { "name": "canyon" } });
    accounts.create(&how, &serde_json::from_value(named).unwrap()).await.unwrap();
    let role = json!({ "metadata": { "name": "canyon" }, "rules": rules() });
    let roles = Api::<Role>::namespaced(admin.clone(), namespace);
    roles.create(&how, &serde_json::from_value(role).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": { "name": "canyon" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "canyon" },
        "subjects": [
            { "kind": "ServiceAccount", "name": "canyon", "namespace": namespace },
        ],
    });
    let bindings = Api::<RoleBinding>::namespaced(admin.clone(), namespace);
    bindings.create(&how, &serde_json::from_value(binding).unwrap()).await.unwrap();
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let answer = accounts.create_token_request("canyon", &how, &request).await.unwrap();
    answer.status.unwrap().token
}

/// Loads `act.c` onto the node, as an image without anything else, and the images of users.
pub(crate) fn act_image(facts: &Facts) {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let script = r#"
            set -eu
            cc -O1 -static -o "$1/act" "$2"
            tar -C "$1" -c act |
                docker import --change 'ENTRYPOINT ["/act"]' --change 'USER 65532:65532' - "$3" >/dev/null
            mkdir "$1/without" "$1/user"
            cc -O1 -static -DWITHOUT_INJECT -o "$1/without/act" "$2"
            tar -C "$1/without" -c act | docker import --change 'ENTRYPOINT ["/act"]' --change 'USER 65532' - "$4" >/dev/null
            echo data >"$1/user/data"
            for user in "$5 10001:10001" "$6 0"; do
                tar -C "$1/user" -c data |
                    docker import --change 'ENTRYPOINT ["/none"]' --change "USER ${user#* }" - "${user% *}" >/dev/null
            done
            docker save "$3" "$4" "$5" "$6" | ctr -a "$NODE_SOCKET" -n k8s.io images import - >/dev/null
        "#;
        let folder = tempfile::tempdir().unwrap();
        let source = workspace().join("launcher/dispatch/tests/suite/act.c");
        let made = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(folder.path())
            .arg(source)
            .args([ACT_IMAGE, ACT_WITHOUT_INJECT_IMAGE, USERS_IMAGE, ROOTS_IMAGE])
            .env("DOCKER_HOST", facts.get("DOCKER_HOST"))
            .env("NODE_SOCKET", facts.get("NODE_SOCKET"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    });
}

/// The workspace's root, from whichever crate this file is built.
fn workspace() -> &'static Path {
    let mut folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    while !folder.join("Cargo.lock").exists() {
        folder = folder.parent().unwrap();
    }
    folder
}
