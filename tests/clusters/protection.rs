//! What a module finds in the container of its job: every variable that the runner's definition names, and none of the
//! runner's secrets.

use crate::agent_walled::{Agent, canyon};
use crate::harness::account::{Account, SECRET};
use crate::harness::bed::bed;
use crate::harness::deployments::{assert_succeeded, end, log, request};
use crate::harness::kinds::Kind;
use crate::harness::module::inline;
use crate::harness::probe;
use crate::harness::site::{ENV, Site};
use serde_json::{Value, json};

const PLAIN: &str = "in-the-clear";
const STORED: &str = "kept-in-a-secret";
const WHOLE: &str = "one-of-a-whole-secret";
/// Prints each variable, and of masked ones the length.
const SAY: &str = r#"
length() { printf %s "$1" | wc -c; }
echo "plain $PLAIN_SETTING"
echo "stored $(length "$STORED_SETTING") $STORED_SETTING"
echo "whole $(length "$WHOLE_SETTING") $WHOLE_SETTING"
"#;

async fn finds_nothing(site: &Site) {
    let id = site.deploy(probe::module("")).await.id.to_string();
    probe::assert_found_nothing(&site.log(&id).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_finds_nothing_of_its_runner_in_a_pod() {
    finds_nothing(&Site::new(Kind::Oidc).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_finds_nothing_of_its_runner_in_a_task_of_ecs() {
    finds_nothing(&Site::new(Kind::Ecs).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_finds_nothing_of_its_runner_in_a_container_of_an_agent_and_gets_its_variables() {
    let account = Account::start().await;
    let environment = json!({ "PLAIN_SETTING": PLAIN, "STORED_TOKEN": STORED });
    let (server, token) = canyon(&account, &environment).await;
    let _agent = Agent::start(&[], &server, &token);
    let client = server.client();
    let say = "echo \"plain $PLAIN_SETTING\"; echo \"stored $STORED_TOKEN\"";
    let body = request(ENV, Some(probe::module(say)));
    let id = client.create_deployment(&body, "probe").await.unwrap().id.to_string();
    assert_succeeded(&end(&client, &id).await);
    let log = log(&client, &id).await;
    probe::assert_found_nothing(&log, None);
    says(&log, &format!("plain {PLAIN}"));
    // A definition of this type has no secrets; the runner masks this one by its name.
    says(&log, &format!("stored {}", "*".repeat(STORED.len())));
}

#[track_caller]
fn says(log: &str, words: &str) {
    assert!(log.contains(&format!("(local-exec): {words}\n")), "no `{words}` in {log}");
}

/// Runs a module that prints `SAY`'s lines; returns the log.
async fn said(site: &Site, secrets: &[&str]) -> String {
    let script = format!("<<-SAY\n{SAY}\n    SAY");
    let module = format!(
        "resource \"terraform_data\" \"says\" {{\n  provisioner \"local-exec\" {{\n    command = {script}\n  }}\n}}\n"
    );
    let id = site.deploy(inline(module)).await.id.to_string();
    let log = site.log(&id).await;
    let events: String = site.events(&id).await.iter().map(Value::to_string).collect();
    for secret in secrets {
        assert!(!log.contains(secret) && !events.contains(secret), "{secret} in {log}\n{events}");
    }
    says(&log, &format!("plain {PLAIN}"));
    log
}

/// The line of a masked value.
fn masked(what: &str, secret: &str) -> String {
    format!("{what} {} {}", secret.len(), "*".repeat(secret.len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_gets_every_variable_of_its_pod_and_no_log_shows_those_of_secrets() {
    let site = Site::with(Kind::Oidc, |runner| {
        let from_secret = json!({ "secretKeyRef": { "name": "database", "key": "url" } });
        let container = json!({
            "name": "canyon-runner",
            "env": [
                { "name": "PLAIN_SETTING", "value": PLAIN },
                { "name": "STORED_SETTING", "valueFrom": from_secret },
            ],
            "envFrom": [{ "secretRef": { "name": "all" } }],
        });
        let template = json!({ "spec": { "containers": [container] } });
        runner["runner_configuration"]["job"]["pod_template"] = template;
    })
    .await;
    for (name, key, value) in [("database", "url", STORED), ("all", "WHOLE_SETTING", WHOLE)] {
        let literal = format!("--from-literal={key}={value}");
        let namespace = site.namespace.0.as_str();
        bed().kubectl(&["-n", namespace, "create", "secret", "generic", name, &literal], "");
    }
    let log = said(&site, &[STORED, WHOLE]).await;
    says(&log, &masked("stored", STORED));
    says(&log, &masked("whole", WHOLE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_gets_every_variable_of_its_task_and_no_log_shows_those_of_secrets() {
    let [arn, secret] = SECRET;
    let site = Site::with(Kind::Ecs, |runner| {
        let job = &mut runner["runner_configuration"]["job"];
        job["environment"]["PLAIN_SETTING"] = json!(PLAIN);
        job["secrets"] = json!({ "STORED_SETTING": arn });
    })
    .await;
    let log = said(&site, &[secret]).await;
    says(&log, &masked("stored", secret));
}
