//! Each function's role grants what its function does, and nothing more. The front of `tests/cloud` evaluates
//! the template's policies before each call; this test does once everything that a function can do.

use crate::bus::{self, SOON};
use crate::harness::deployments::{LIMIT, answered, assert_succeeded, destruction, request};
use crate::harness::module::{THIRTY, from, inline};
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::hints;
use crate::sources::archive;
use crate::{agent, companion, retention};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, DeploymentQuery};
use canyon_api::page::PageQuery;
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::front::{Outcome, Policy};
use canyon_cloud::stack::Statement;
use canyon_cloud::streams::Disturbance;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use uuid::Uuid;

/// Lambda makes these calls in the role's name. The function itself does not, so the front cannot see them.
const BY_LAMBDA: [&str; 4] = [
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
];
/// The actions that a role grants.
fn granted(stack: &Value, function: &str) -> BTreeSet<String> {
    let statements = stack["roles"][function].as_array().unwrap();
    let actions = statements.iter().flat_map(|one| one["Action"].as_array().unwrap());
    actions.map(|action| action.as_str().unwrap().to_owned()).collect()
}

/// The granted actions that were not used yet, by function; no call may have been refused.
fn idle(sites: &[&Site]) -> BTreeMap<&'static str, Vec<String>> {
    let mut idle = BTreeMap::new();
    for function in FUNCTIONS {
        let mut left = granted(&sites[0].server.cloud().stack, function);
        for site in sites {
            let front = &site.server.cloud().front;
            assert!(front.denied().is_empty(), "{:#?}", front.denied());
            let used = front.used_actions(function);
            left.retain(|action| !used.contains(action));
        }
        idle.insert(function, left.into_iter().collect());
    }
    idle
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_grants_what_its_function_does_and_nothing_more() {
    let expected: BTreeMap<_, Vec<_>> =
        FUNCTIONS.map(|function| (function, BY_LAMBDA.map(str::to_owned).to_vec())).into();
    // Each is a whole installation: two at a time are enough for a small machine.
    let (one, two) = tokio::join!(api_first(), launcher_first());
    let (three, far) = tokio::join!(sweep_alone(), agent::deployed());
    // The launcher deletes an agent's job that no agent has taken.
    let (site, module) = (&far.site, inline(THIRTY));
    let disabled = json!({ "disabled": true });
    answered(async || site.client.update(&["agents", companion::NAME], &disabled).await).await;
    let waits = site.accept(&request(ENV, Some(module))).await;
    // Only an order that exists has a reason why it waits: a cancel before that finds nothing to delete.
    let ordered = |one: &Deployment| one.status == "launching" && one.waiting.is_some();
    site.until(&waits, "an order", ordered).await;
    answered(async || site.client.cancel(&waits).await).await;
    assert_eq!(site.end(&waits).await.status, "cancelled");
    let sites = [&one, &two, &three, &far.site];
    // Calls that follow an end may take a moment.
    let deadline = Instant::now() + LIMIT;
    while idle(&sites) != expected && Instant::now() < deadline {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(idle(&sites), expected, "granted, and never used");
}

/// The API is the first to need the master key; then the site does all that people and pipelines request.
async fn api_first() -> Site {
    // Its jobs request tokens, which the API signs.
    let job = json!({ "identity": { "tokens": [{ "name": "vault", "audience": "vault" }] } });
    let mut site = Site::on(Server::start().await, &job).await;
    site.make(&["runners"], &cluster()).await;
    // After a restart, other processes find the key that this one has made.
    site.server.kill();
    site.server.restart().await;
    let client = &site.client;
    client.delete(&["runners", "cluster"], &[]).await.unwrap();
    site.make(&["runners"], &cluster()).await;
    for path in [".well-known/openid-configuration", ".well-known/jwks", "jobs/.well-known/jwks"] {
        let answer = reqwest::get(format!("{}/{path}", site.server.url())).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
    }
    // The owner of variables must exist when they are written.
    let set = site.server.canyon(&["set", "variable", "--project", PROJECT, "GREETING=hello"]);
    set.done();
    let (digest, bytes) = archive(&[("main.tf", THIRTY)]);
    client.put_archive(&digest, bytes.into()).await.unwrap();
    site.deploy(from(&format!("sha256:{digest}"))).await;
    let (digest, bytes) = archive(&[("main.tf", THIRTY), ("noise", &noise())]);
    assert!(bytes.len() > 4 << 20, "an archive of this size goes to the bucket itself");
    client.put_archive(&digest, bytes.into()).await.unwrap();
    assert!(answered(async || client.has_archive(&digest).await).await);

    bus::admit(&site).await;
    let mut detail = bus::detail(&site);
    detail["module"] = json!({ "source": format!("sha256:{digest}") });
    let id = bus::accepted(&site, &bus::event(&detail)).await;
    assert_succeeded(&site.end(&id).await);
    detail["module"] = json!({ "source": format!("sha256:{}", "0".repeat(64)) });
    bus::rejected(&site, &bus::event(&detail)).await;
    // The function looks for the secret store, which does not exist.
    let secret = json!({ "TOKEN": { "store": "team-vault", "ref": "token" } });
    let job = json!({ "image": "alpine:3.22", "command": ["sh"], "secret_variables": secret });
    detail.as_object_mut().unwrap().remove("module");
    detail["container"] = job;
    let rejected = bus::rejected(&site, &bus::event(&detail)).await;
    assert!(rejected.to_string().contains("team-vault"), "{rejected}");
    assert!(!site.log(&id).await.is_empty());
    answered(async || client.outputs(&id).await).await;
    let filter = DeploymentQuery {
        project_id: Some(PROJECT.to_owned()),
        env_id: Some(ENV.to_owned()),
        ..DeploymentQuery::default()
    };
    answered(async || client.deployments(&filter, &PageQuery::default()).await).await;
    assert_succeeded(&site.run(&destruction(ENV)).await);
    client.delete(&["projects", PROJECT, "envs", ENV], &[]).await.unwrap();
    lambda_hands_over(&site);
    site
}

/// Lambda's own calls in the roles' names: when a function fails repeatedly, and when it polls the stream.
fn lambda_hands_over(site: &Site) {
    let cloud = site.server.cloud();
    let asynchronous = &cloud.stack["functions"]["events"]["asynchronous"];
    let queue = asynchronous["DestinationConfig"]["OnFailure"]["Destination"].as_str().unwrap();
    assert!(cloud.front.authorize("events", "sqs:SendMessage", queue));
    let mapping = &cloud.stack["event_source_mapping"];
    let queue = mapping["DestinationConfig"]["OnFailure"]["Destination"].as_str().unwrap();
    assert!(cloud.front.authorize("launcher", "sqs:SendMessage", queue));
    let table = cloud.stack["table"]["stream_arn"].as_str().unwrap();
    assert!(cloud.front.authorize("launcher", "dynamodb:ListStreams", table));
}

/// A runner with a secret, which is sealed with the master key.
fn cluster() -> Value {
    let auth = json!({ "service_account_token": "very-secret-token" });
    let data = json!({ "server": "https://cluster.example", "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" });
    let job = json!({ "namespace": "canyon", "service_account": "canyon" });
    let cluster = json!({ "cluster_data": data, "auth": auth });
    json!({
        "id": "cluster",
        "runner_configuration": { "type": "kubernetes", "cluster": cluster, "job": job },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
    })
}

/// Text that does not compress.
fn noise() -> String {
    (0..150_000).map(|_| Uuid::new_v4().to_string() + &Uuid::new_v4().to_string()).collect()
}

/// The launcher is the first to need the master key, and finds a killed job.
async fn launcher_first() -> Site {
    let site = Site::new().await;
    // On a loaded machine the sweep may otherwise launch before the stream does, and make the key.
    site.server.cloud().bus.run_schedules(false);
    site.deploy(inline("")).await;
    site.server.cloud().bus.run_schedules(true);
    salvaged(&site).await;
    refused_by_a_cluster(&site).await;
    withdrawn_from_agents(&site).await;
    site
}

/// The sweep alone does the same.
async fn sweep_alone() -> Site {
    let mut site = Site::new().await;
    let off = Disturbance { off: true, ..Default::default() };
    site.server.cloud().stream.disturb(off);
    salvaged(&site).await;
    refused_by_a_cluster(&site).await;
    withdrawn_from_agents(&site).await;
    site.server.kill();
    site.server.restart().await;
    let newest = site.deploy(inline("")).await;
    retention::removed(&site, &newest.id.to_string()).await;
    site
}

/// A launch, with a token that the function signs, to a cluster that is unreachable. It is retried.
async fn refused_by_a_cluster(site: &Site) {
    let authority = STANDARD.encode(include_bytes!("far-ca.pem"));
    let data = json!({ "server": "https://127.0.0.1:1", "certificate_authority_data": authority });
    let cluster = json!({ "cluster_data": data, "auth": { "oidc": { "audience": "far" } } });
    let container = json!({ "name": "canyon-runner", "image": "registry.test/runner:1" });
    let template = json!({ "spec": { "containers": [container] } });
    let job =
        json!({ "namespace": "canyon", "service_account": "canyon", "pod_template": template });
    let runner = json!({
        "id": "far",
        "runner_configuration": { "type": "kubernetes", "cluster": cluster, "job": job },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["projects"], &json!({ "id": "far" })).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "far", "project_id": "far" })).await;
    let environment = json!({ "id": ENV, "env_type_id": "development" });
    site.make(&["projects", "far", "envs"], &environment).await;
    let body = DeploymentCreateBody { project_id: "far".into(), ..request(ENV, Some(inline(""))) };
    let id = site.accept(&body).await;
    let says_why = |found: &Deployment| {
        found.waiting.as_ref().is_some_and(|waiting| waiting.reason.contains("agent"))
    };
    site.until(&id, "the reason", says_why).await;
}

/// A job that no agent has taken, and that is then withdrawn.
async fn withdrawn_from_agents(site: &Site) {
    let runner = json!({
        "id": "away",
        "runner_configuration": { "type": "docker-agent" },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["projects"], &json!({ "id": "away" })).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "away", "project_id": "away" })).await;
    let environment = json!({ "id": ENV, "env_type_id": "development" });
    site.make(&["projects", "away", "envs"], &environment).await;
    let body = DeploymentCreateBody { project_id: "away".into(), ..request(ENV, Some(inline(""))) };
    let id = site.accept(&body).await;
    let waits = |found: &Deployment| {
        found
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.reason.contains("none has ever connected"))
    };
    site.until(&id, "the reason", waits).await;
    answered(async || site.client.cancel(&id).await).await;
    assert_eq!(site.end(&id).await.status, "cancelled");
}

/// A job that is killed during its apply, together with its file of events: the launcher reads the events
/// that it had sent.
async fn salvaged(site: &Site) {
    let (id, pid) = hints::applying(site, 1).await;
    let deadline = Instant::now() + SOON;
    while site.events(&id).await.is_empty() {
        assert!(Instant::now() < deadline, "it sends no events");
        sleep(Duration::from_millis(50)).await;
    }
    let job = format!("jobs/{id}-1/work/events.jsonl");
    std::fs::remove_file(site.server.data().join(job)).unwrap();
    hints::kill(pid);
    assert_eq!(site.end(&id).await.status, "failed");
    bus::published(site, "deployment.failed", 1, |detail| detail["deployment_id"] == id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_its_role_does_not_allow_is_refused_and_recorded() {
    let site = Site::new().await;
    let cloud = site.server.cloud();
    let mut statements: Vec<Statement> =
        serde_json::from_value(cloud.stack["roles"]["launcher"].clone()).unwrap();
    statements.retain(|one| !one.action.texts().contains(&"events:PutEvents".to_owned()));
    let policy = Policy::read(&statements).unwrap();
    let endpoint = cloud.front.open("launcher", policy).await.unwrap();
    let launcher = cloud.function("launcher");
    let mut environment = launcher.config().environment.clone();
    environment.insert("AWS_ENDPOINT_URL".to_owned(), endpoint);
    launcher.update(environment).await;
    site.deploy(inline("")).await;
    let deadline = Instant::now() + SOON;
    while cloud.front.denied().is_empty() {
        if Instant::now() >= deadline {
            let why = cloud.stream.settled(Duration::from_millis(200)).await;
            panic!("nothing is refused: {why:?}");
        }
        sleep(Duration::from_millis(50)).await;
    }
    for one in cloud.front.denied() {
        let what = (one.function.as_str(), one.action.as_str(), &one.outcome);
        assert_eq!(what, ("launcher", "events:PutEvents", &Outcome::Denied));
    }
}

#[test]
fn the_page_of_permissions_matches_the_template() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"))
        .current_dir(root)
        .args(["infra/aws/permissions.py", "--check"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
