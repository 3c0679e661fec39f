//! The published resource definitions of a container runner, as they stand: only the image, the host of the repository and the
//! folder `home` are filled in. Their `config` names another cluster than the runner's, or an agent.

use crate::agent_walled::Agent;
use crate::container_jobs::{digest_of, pushed_image_with};
use crate::git_host::GitHost;
use crate::harness::bed::bed;
use crate::harness::clouds;
use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::kinds::Kind;
use crate::harness::programs;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_cloud::parts::vault::Vault;
use http::Method;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const RESOURCE: &str = "s3.default#photos";
const TOKEN: &str = "t0ken-in-the-vault";
const CODE: &str = "a line of the repository\n";
/// Of both published definitions.
const NAMESPACE: &str = "humanitec-runner";
const JOB_ACCOUNT: &str = "humanitec-runner-job";

const CONFIG: &str = include_str!("published/config-tf-runner.yaml");
const BUCKET: &str = include_str!("published/s3-tf.yaml");
const CONFIG_BODY: &str = include_str!("published/config-tf-runner.json");
const BUCKET_BODY: &str = include_str!("published/s3-tf.json");

/// The private repository, and a Vault that has its password, both at an address that pods reach.
struct Hosts {
    git: GitHost,
    vault: Vault,
    front: Child,
    vault_url: String,
    image: String,
}

impl Hosts {
    async fn start() -> Self {
        let git = GitHost::start_at(bed().get("NODE_ADDRESS"));
        git.accept_tokens(&[("/", &format!("my-git-handler:{TOKEN}"))]);
        git.add("my-repo.git", CODE);
        let image = pushed_image_with(Some(&git.path("ca.pem")));
        let vault = Vault::start().await;
        let target = vault.url().trim_start_matches("http://");
        let mut front = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"))
            .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/serverless/tls_front.py")])
            .arg(bed().get("NODE_ADDRESS"))
            .args([git.path("cert.pem"), git.path("key.pem")])
            .arg(target)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(front.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let vault_url = format!("https://{}:{}", bed().get("NODE_ADDRESS"), port.trim());
        Self { git, vault, front, vault_url, image }
    }

    /// A published text with the image, the host and the folder of these tests.
    fn filled_in(&self, published: &str) -> String {
        let repository = self.git.https("my-repo.git");
        let changes = [
            ("ghcr.io/my-org/my-image:1.1.0", self.image.as_str()),
            ("https://my-domain.com/my-org/my-repo.git", &repository),
            ("HOME", "home"),
        ];
        changes.iter().fold(published.to_owned(), |text, (theirs, own)| text.replace(theirs, own))
    }

    /// The store `my-store` of the organization: a Vault that trusts the jobs of its project.
    async fn store(&self, site: &Site) {
        let jobs = format!("{}/jobs", bed().get("ISSUER_URL"));
        let keys = format!("{}/jobs/.well-known/jwks", site.server.url());
        self.vault.call(Method::POST, "sys/auth/jwt", &json!({ "type": "jwt" })).await;
        let trusts = json!({ "jwks_url": keys, "bound_issuer": jobs });
        self.vault.call(Method::POST, "auth/jwt/config", &trusts).await;
        let policy =
            json!({ "policy": "path \"secret/data/path/to/*\" { capabilities = [\"read\"] }" });
        self.vault.call(Method::PUT, "sys/policies/acl/git", &policy).await;
        let role = json!({
            "role_type": "jwt", "user_claim": "sub", "bound_audiences": [self.vault_url],
            "bound_claims": { "org": site.server.org(), "project": PROJECT }, "token_policies": ["git"],
        });
        self.vault.call(Method::POST, "auth/jwt/role/git", &role).await;
        let data = json!({ "data": { "value": TOKEN } });
        self.vault.call(Method::POST, "secret/data/path/to/git/password", &data).await;
        let configuration = json!({ "type": "vault", "url": self.vault_url, "role": "git" });
        let body = json!({ "id": "my-store", "store_configuration": configuration });
        site.make(&["secret-stores"], &body).await;
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.front.kill();
        let _ = self.front.wait();
    }
}

/// The command line, which must succeed.
fn canyon(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(programs::given("CANYON_TEST_BIN_DIR").join("canyon"));
    command.args(arguments).env("CANYON_API_URL", site.server.url());
    command.env("CANYON_ORG", site.server.org()).env("CANYON_TOKEN", site.server.token());
    let done = command.output().unwrap();
    let [said, complaint] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(done.status.success(), "{arguments:?}: {said}{complaint}");
    format!("{said}{complaint}")
}

/// `canyon create -f` of a published file, changed by `change`.
fn create(site: &Site, name: &str, text: &str) {
    let path = site.server.path(name);
    std::fs::write(&path, text).unwrap();
    canyon(site, &["create", "-f", path.to_str().unwrap()]);
}

fn order(mode: RequestedMode) -> DeploymentCreateBody {
    DeploymentCreateBody { mode, resource: Some(RESOURCE.to_owned()), ..request(ENV, None) }
}

/// Creates the resource and destroys it.
async fn comes_and_goes(site: &Site) -> Deployment {
    let created = site.run(&order(RequestedMode::Deploy)).await;
    let log = site.log(&created.id.to_string()).await;
    assert!(created.status == "succeeded", "{created:#?}\n{log}\n{}", site.server.log());
    for part in ["{\"bucket\": \"shop-dev\"}", CODE, "the job of user 10001 does: create"] {
        assert!(log.contains(part), "no `{part}` in: {log}");
    }
    assert!(!log.contains(TOKEN), "{log}");
    let outputs = site.client.outputs(&created.id.to_string()).await.unwrap();
    let folder = format!("/{}/runneruser/workspace", "home");
    assert_eq!(outputs["folder"].value, Some(folder.into()));
    let digest = digest_of(site, &created.id.to_string()).await;
    let destroyed = site.run(&order(RequestedMode::Destroy)).await;
    assert_succeeded(&destroyed);
    assert_eq!(digest_of(site, &destroyed.id.to_string()).await, digest);
    let log = site.log(&destroyed.id.to_string()).await;
    assert!(log.contains("the job of user 10001 does: destroy"), "{log}");
    created
}

/// The cluster of the `config` definition, for a cloud, and the account that reaches it. For GKE it is as published.
fn theirs(kind: Kind) -> (&'static str, Value) {
    match kind {
        Kind::Gke => (
            "cluster_type: gke\n              loadbalancer: 10.10.10.10\n              name: my-cluster\n              project_id: my-gcp-project\n              zone: cluster-zone\n",
            json!({ "id": "myAccount", "type": "gcp-identity", "credentials": {
                "gcp_audience": "//iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/my-wif-pool/providers/canyon-runner",
                "gcp_service_account": "canyon-runner@my-gcp-project.iam.gserviceaccount.com" } }),
        ),
        Kind::Eks => (
            "cluster_type: eks\n              name: my-cluster\n              region: eu-central-1\n",
            json!({ "id": "myAccount", "type": "aws-role", "credentials": {
                "aws_role": "arn:aws:iam::123456789012:role/canyon-runner" } }),
        ),
        Kind::Aks => (
            "cluster_type: aks\n              name: my-cluster\n              resource_group: my-group\n              subscription_id: 44444444-4444-4444-8444-444444444444\n",
            json!({ "id": "myAccount", "type": "azure-identity", "credentials": {
                "azure_identity_tenant_id": "11111111-1111-4111-8111-111111111111",
                "azure_identity_client_id": "22222222-2222-4222-8222-222222222222" } }),
        ),
        _ => panic!("published definitions have clusters of three clouds"),
    }
}

/// A site whose runner is trusted, and which then names a cluster that is not there.
async fn elsewhere(kind: Kind) -> Site {
    let site = Site::untrusted(kind, |runner| {
        let job = &mut runner["runner_configuration"]["job"];
        job["namespace"] = NAMESPACE.into();
        job["service_account"] = JOB_ACCOUNT.into();
        runner["state_storage_configuration"]["namespace"] = NAMESPACE.into();
    })
    .await;
    site.trust().await;
    let trust = site.client.get(&["runners", RUNNER, "trust"]).await.unwrap();
    let mut runner =
        site.client.get(&["runners", RUNNER]).await.unwrap()["runner_configuration"].take();
    if kind == Kind::Gke {
        let mut cluster = runner["cluster"].clone();
        cluster["location"] = "cluster-zone".into();
        site.place.clouds().configure(clouds::google(&trust, &cluster)).await;
    }
    runner["cluster"]["name"] = "not-there".into();
    let change =
        json!({ "runner_configuration": { "type": runner["type"], "cluster": runner["cluster"] } });
    site.client.update(&["runners", RUNNER], &change).await.unwrap();
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_definitions_run_as_they_stand_in_the_clusters_of_three_clouds() {
    for kind in [Kind::Gke, Kind::Eks, Kind::Aks] {
        let hosts = Hosts::start().await;
        let site = elsewhere(kind).await;
        hosts.store(&site).await;
        let (cluster, account) = theirs(kind);
        let published = theirs(Kind::Gke).0;
        assert!(CONFIG.contains(published));
        create(&site, "config.yaml", &CONFIG.replace(published, cluster));
        create(&site, "s3.yaml", &hosts.filled_in(BUCKET));
        let agent = json!({ "id": "no-agent", "name": "none", "type": "agent", "driver_type": "humanitec/echo",
            "driver_inputs": { "values": { "url": "" } }, "criteria": [{}] });
        site.make(&["resources", "defs"], &agent).await;
        let explained = canyon(&site, &["explain", "resource", PROJECT, ENV, RESOURCE]);
        assert!(explained.contains("canyon create account myAccount"), "{explained}");
        site.make(&["resources", "accounts"], &account).await;
        let explained = canyon(&site, &["explain", "resource", PROJECT, ENV, RESOURCE]);
        let place = format!("on runner `{RUNNER}` in cluster `kubernetes-");
        assert!(explained.contains("my-s3-bucket") && explained.contains(&place), "{explained}");

        let created = comes_and_goes(&site).await;
        let shown = site.client.get(&["deployments", &created.id.to_string()]).await.unwrap();
        let cluster = shown["container"]["cluster"].as_str().unwrap();
        assert!(cluster.ends_with(" my-cluster"), "{shown}");
        site.is_cleared(&created.id.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_definitions_run_as_they_stand_behind_an_agent() {
    let hosts = Hosts::start().await;
    let site = Site::new(Kind::Oidc).await;
    hosts.store(&site).await;
    // The environment's own runner has no cluster at all.
    create(&site, "config.yaml", CONFIG);
    create(&site, "s3.yaml", &hosts.filled_in(BUCKET));
    let agent = json!({ "id": "inside", "name": "inside", "type": "agent", "driver_type": "humanitec/agent",
        "driver_inputs": { "values": { "id": "inside" } }, "criteria": [{}] });
    site.make(&["resources", "defs"], &agent).await;
    let refused = site.client.create_deployment(&order(RequestedMode::Deploy), "first").await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("runner `inside`") && refused.contains("no such runner"), "{refused}");

    let (namespace, account) = (site.namespace.0.as_str(), crate::harness::site::ACCOUNT);
    let inside = json!({
        "id": "inside",
        "runner_configuration": {
            "type": "kubernetes-agent", "job": { "namespace": namespace, "service_account": account },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": namespace },
    });
    site.make(&["runners"], &inside).await;
    bed().apply(&format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}\n---\n\
         {{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {JOB_ACCOUNT}, namespace: {NAMESPACE}}}}}"
    ));
    let path = format!("{}/inside", site.server.org());
    let token = json!({ "role": "agent", "runner_id": "inside" });
    let token = site.client.create(&["tokens"], &token).await.unwrap();
    let _agent = Agent::start_with(
        &[],
        &[
            ("CANYON_API_URL", &site.server.url()),
            ("CANYON_RUNNER_PATH", &path),
            ("CANYON_TOKEN", token["secret"].as_str().unwrap()),
            ("CANYON_AGENT_NAME", "inside"),
            ("CANYON_JOB_DISPATCHER_TYPE", "kubernetes"),
            ("CANYON_JOB_DISPATCHER_DATA_HOST", ""),
            ("CANYON_JOB_DISPATCHER_DATA_LOCAL_IMAGE", ""),
            ("CANYON_JOB_DISPATCHER_DATA_AUTH_TYPE", "kube_config"),
            (
                "CANYON_JOB_DISPATCHER_DATA_KUBE_CONFIG_PATH",
                bed().file_beside("kubeconfig").to_str().unwrap(),
            ),
        ],
    );
    let created = comes_and_goes(&site).await;
    assert_eq!(created.runner_id, "inside");
    let is_of_job = |event: &Value| event["involvedObject"]["kind"] == "Job";
    let of_jobs: Vec<_> = site.objects("events").into_iter().filter(is_of_job).collect();
    assert_eq!(of_jobs, [Value::Null; 0], "its namespace is that of the definition");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_bodies_are_taken_as_they_stand_over_http() {
    let site = Site::untrusted(Kind::Oidc, |_| {}).await;
    for (id, body) in [("config-tf-runner", CONFIG_BODY), ("my-s3-bucket", BUCKET_BODY)] {
        let body = body.replace("HOME", "home");
        let made = site.make(&["resources", "defs"], &serde_json::from_str(&body).unwrap()).await;
        assert_eq!(made["id"], id);
        let shown = canyon(&site, &["get", "definition", id, "-o", "yaml"]);
        assert!(shown.contains("env_type: development"), "{shown}");
    }
}
