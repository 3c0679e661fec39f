//! The agent from nothing to a deployment, by the commands of docs/agent.md exactly as written, with the real `helm` in
//! a real cluster. (This cluster's network enforces no `NetworkPolicy`; `agent_walled.rs` tests that nothing reaches
//! the agent.)

use crate::harness::bed::bed;
use crate::harness::deployments::{assert_succeeded, counts, log};
use crate::harness::helm::run;
use crate::harness::page::Page;
use crate::harness::server::{Server, Variables};
use canyon_api::deployment::Deployment;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// The page fixes these names, so only one test runs at a time.
const AGENT: &str = "canyon-agent";
const JOBS: &str = "canyon-runner";
const VERSION: &str = env!("CARGO_PKG_VERSION");

static TURN: Mutex<()> = Mutex::const_new(());

/// A server, and a cluster without any agent. Dropping it removes what the test created.
struct Install {
    server: Server,
    page: Page,
    _turn: MutexGuard<'static, ()>,
}

impl Install {
    async fn new() -> Self {
        let turn = TURN.lock().await;
        clean();
        publish();
        let server = Server::start_with(Variables::default()).await;
        let registry = bed().get("REGISTRY").to_owned();
        let page =
            Page::new("agent.md", &server).replace("registry.example.com/platform", registry);
        Self { server, page, _turn: turn }
    }

    async fn agent(&self) -> Value {
        self.server.client().get(&["agents", AGENT]).await.unwrap()
    }

    /// The newest deployment, which must have the outputs of `examples/hello`.
    async fn newest(&self) -> Deployment {
        let client = self.server.client();
        let listed = client.list(&["deployments"], &[]).await.unwrap();
        let id = listed.first().expect("something was deployed")["id"].as_str().unwrap();
        let deployment = client.deployment(id).await.unwrap();
        assert_succeeded(&deployment);
        let outputs = client.outputs(id).await.unwrap();
        assert_eq!(outputs["services"].value, Some(json!(30).into()));
        assert_eq!(
            outputs["first_words"].value,
            Some(json!("Hello from Canyon, service 0").into())
        );
        deployment
    }

    /// Canyon agrees with the command's output about the first deployment, and has the job's whole log and result.
    async fn assert_deployed(&self, said: &str) {
        assert!(said.contains("succeeded"), "{said}");
        let deployment = self.newest().await;
        assert_eq!(counts(&deployment), (30, 0, 0));
        let log = log(&self.server.client(), &deployment.id.to_string()).await;
        assert!(log.contains("terraform_data.service"), "its log came: {log}");
        assert_ran_in_the_cluster();
    }
}

impl Drop for Install {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let pods =
                bed().try_kubectl(&["-n", AGENT, "describe", "pods"], "").unwrap_or_default();
            let log = bed()
                .try_kubectl(&["-n", AGENT, "logs", "--tail=50", "deployment/canyon-agent"], "");
            println!("{pods}\n{}", log.unwrap_or_else(|error| error));
        }
        clean();
    }
}

/// Removes what an earlier run may have left.
fn clean() {
    let _ = crate::harness::helm::helm(&[
        "uninstall",
        AGENT,
        "--namespace",
        AGENT,
        "--ignore-not-found",
        "--wait",
    ]);
    let _ = bed().try_kubectl(
        &["delete", "namespace", AGENT, JOBS, "--ignore-not-found", "--timeout=55s"],
        "",
    );
}

/// Puts the images where step 1 of the page puts them, without building them again.
fn publish() {
    let engine = [("DOCKER_HOST", bed().get("DOCKER_HOST"))];
    for (variable, program) in [("AGENT_IMAGE", "canyon-agent"), ("RUNNER_IMAGE", "canyon-runner")]
    {
        let name = format!("{}/{program}:{VERSION}", bed().get("REGISTRY"));
        run(&["docker", "tag", bed().get(variable), &name], &engine).done();
        run(&["scripts/cluster", "load", &name], &[]).done();
    }
}

/// The Secret that holds the agent's key, and its content.
fn key() -> Value {
    let text = bed().kubectl(&["-n", AGENT, "get", "secret", "canyon-agent-key", "-o", "json"], "");
    serde_json::from_str::<Value>(&text).unwrap()["data"]["private_key"].clone()
}

/// The cluster's events name the Job, which is deleted after its end, and its state is in the cluster.
fn assert_ran_in_the_cluster() {
    let events = bed().list(JOBS, "events");
    let made = |event: &Value| {
        event["involvedObject"]["kind"] == "Job" && event["reason"] == "SuccessfulCreate"
    };
    assert!(events.iter().any(made), "no job ran in {JOBS}: {events:#?}");
    let secrets = bed().list(JOBS, "secrets");
    let is_state =
        |secret: &Value| secret["metadata"]["name"].as_str().unwrap().starts_with("tfstate-");
    assert!(secrets.iter().any(is_state), "its state is in the cluster: {secrets:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_helm_install_and_one_adoption_lead_from_nothing_to_a_deployment() {
    let install = Install::new().await;
    let page = &install.page;
    page.follow("### 2. The runner");
    page.follow("### 3. The agent");
    let said = page.follow("### 4. Adopt it");
    let agent = install.agent().await;
    assert_eq!(agent["state"], "adopted", "{agent:#}");
    let fingerprint = agent["fingerprint"].as_str().unwrap();
    let shown = said.lines().find(|line| line.contains("\"fingerprint\""));
    assert!(
        shown.is_some_and(|line| line.contains(fingerprint)),
        "the agent itself says it: {said}"
    );

    let said = page.follow("### 5. The first deployment");
    install.assert_deployed(&said).await;

    // An upgrade leaves the key alone, so no second adoption is needed.
    let before = key();
    assert!(before.is_string(), "the agent has made a key");
    let upgrade = "helm upgrade canyon-agent infra/charts/canyon-agent --namespace canyon-agent --reuse-values \
        --set agent.concurrency=3 --wait --timeout 90s";
    page.run(upgrade).done();
    assert_eq!(key(), before);
    page.run("canyon deploy shop dev --module ./examples/hello").done();
    assert_eq!(counts(&install.newest().await), (0, 0, 0), "it knows what the first one made");
    let agent = install.agent().await;
    assert_eq!(agent["session"]["concurrency"], 3, "{agent:#}");
    assert!(agent["session"]["number"].as_u64() > Some(1), "{agent:#}");

    page.run("helm uninstall canyon-agent --namespace canyon-agent --wait").done();
    let left =
        bed().list(AGENT, "all,secrets,roles,rolebindings,networkpolicies,poddisruptionbudgets");
    let left: Vec<_> = left
        .iter()
        .filter(|object| object["metadata"]["labels"]["app.kubernetes.io/name"] == AGENT)
        .filter(|object| object["metadata"]["deletionTimestamp"].is_null())
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        left,
        ["canyon-agent-key"],
        "for the next install of this name, which is adopted already"
    );
    assert_eq!(key(), before);
    assert_ran_in_the_cluster();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_trust_policy_no_adoption_is_needed_and_nothing_is_stored() {
    let install = Install::new().await;
    let page = &install.page;
    page.follow("### 2. The runner");
    page.follow("### Without adoption: the cluster vouches for it");
    let said = page.follow("### 5. The first deployment");
    install.assert_deployed(&said).await;
    let agent = install.agent().await;
    assert_eq!(agent["state"], "adopted", "{agent:#}");
    assert!(agent["principal"].is_string() && agent["fingerprint"].is_null(), "{agent:#}");
    let secrets = bed().list(AGENT, "secrets");
    let own: Vec<_> =
        secrets.iter().filter(|secret| secret["type"] != "helm.sh/release.v1").collect();
    assert_eq!(own, Vec::<&Value>::new());

    // Without the policy Canyon refuses the agent, although its pod's token is still valid.
    let ready = format!(
        "kubectl --namespace {AGENT} wait --selector app.kubernetes.io/name={AGENT} pod --timeout 100s"
    );
    page.run(&format!("{ready} --for condition=Ready")).done();
    page.run("canyon delete service-account cluster").done();
    page.run(&format!("{ready} --for condition=Ready=false")).done();
}
