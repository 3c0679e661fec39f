//! Import and commands on the state, on the command line.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::searched::{files_without, until_no_job};
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::state_command::StateCommand;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

const SECRET: &str = "s3cr3t-of-the-state";
const MODULE: &str = r#"
resource "terraform_data" "a" { input = "a" }
resource "terraform_data" "b" {
  count = 3
  input = sensitive("s3cr3t-${"of-the"}-state")
}
output "a" { value = terraform_data.a.id }
"#;

async fn site() -> Site {
    let site = Site::new().await;
    fs::create_dir(site.server.path("module")).unwrap();
    fs::write(site.server.path("module/main.tf"), MODULE).unwrap();
    site
}

fn on_state<'a>(command: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["state", command, PROJECT, ENV], arguments].concat()
}

fn listed(server: &Server) -> Vec<String> {
    let listed = server.canyon(&on_state("list", &[]));
    listed.done().lines().map(str::to_owned).collect()
}

fn deploy(server: &Server) -> Value {
    let deploy = ["deploy", PROJECT, ENV, "--yes", "--module", "./module", "--out", "json"];
    serde_json::from_str(server.canyon(&deploy).done()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_exists_is_imported_then_moved_shown_and_removed_from_the_state() {
    let site = site().await;
    let server = &site.server;
    assert_eq!(listed(server), [""; 0], "nothing was deployed");
    let import = ["import", PROJECT, ENV, "terraform_data.a", "the-id"];
    let refused = server.canyon(&import);
    assert_eq!(refused.code, 4);
    assert!(
        refused.stderr.contains("`module` is required: nothing was deployed"),
        "{}",
        refused.stderr
    );
    server.canyon(&[&import[..], &["--module", "./module"]].concat()).done();
    assert_eq!(listed(server), ["terraform_data.a"]);

    let deployed = deploy(server);
    let metrics = &deployed["deployment"]["metrics"];
    assert_eq!(deployed["outputs"]["a"]["value"], "the-id", "it is not created again");
    assert_eq!(metrics["num_tf_resources"], 4);
    server.canyon(&on_state("mv", &["terraform_data.a", "terraform_data.c"])).done();
    let partly =
        server.canyon(&on_state("rm", &["terraform_data.b[2]", "terraform_data.d", "--yes"]));
    assert_eq!(partly.code, 1, "none is removed if one is not there: {partly:?}");
    let removed =
        server.canyon(&on_state("rm", &["terraform_data.b[2]", "--yes", "--out", "json"]));
    let removed: Value = serde_json::from_str(removed.done()).unwrap();
    assert_eq!(removed["outputs"]["removed"]["value"], json!(["terraform_data.b[2]"]));
    assert_eq!(listed(server), ["terraform_data.b[0]", "terraform_data.b[1]", "terraform_data.c"]);
    let shown = server.canyon(&on_state("show", &["terraform_data.c"]));
    assert!(shown.done().contains("id     = \"the-id\""), "{}", shown.stdout);

    let absent = server.canyon(&on_state("rm", &["terraform_data.zz", "--yes"]));
    assert_eq!(absent.code, 1);
    assert!(absent.stderr.contains("terraform_data.zz"), "{}", absent.stderr);
    let undeclared = server.canyon(&["import", PROJECT, ENV, "terraform_data.zz", "x"]);
    assert!(undeclared.stderr.contains("does not exist in the configuration"), "{undeclared:?}");
    // None of these runs is what the environment has deployed.
    let outputs = server.canyon(&["outputs", PROJECT, ENV, "a"]);
    assert_eq!(outputs.done(), "the-id\n");
    let environment = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    let success = &environment["deployments"]["last_success"]["id"];
    assert_eq!(success, &deployed["deployment"]["id"], "{environment}");
    // The next deployment continues on the state as it is now.
    let again = deploy(server);
    let metrics = &again["deployment"]["metrics"];
    let counts = ["num_tf_resources_added", "num_tf_resources_removed", "num_tf_resources"];
    assert_eq!(counts.map(|name| metrics[name].as_u64().unwrap()), [2, 1, 4], "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_pulled_for_its_reader_alone() {
    let site = site().await;
    let server = &site.server;
    deploy(server);
    let pulled = server.canyon(&on_state("pull", &[]));
    let state: Value = serde_json::from_str(pulled.done()).unwrap();
    assert!(state["serial"].as_u64().unwrap() > 0 && pulled.stdout.contains(SECRET));
    let serial = server.canyon(&on_state("pull", &["--jq", ".serial"]));
    assert_eq!(serial.done().trim(), state["serial"].to_string());
    // `terraform_data` does not mark what it repeats as sensitive.
    let shown = server.canyon(&on_state("show", &["terraform_data.b[0]"]));
    assert!(shown.done().contains(SECRET));
    // The folder of a job has its plan, and is removed when the job has ended.
    let jobs = server.data().join("jobs");
    let deadline = Instant::now() + Duration::from_mins(1);
    while fs::read_dir(&jobs).is_ok_and(|mut entries| entries.next().is_some()) {
        assert!(Instant::now() < deadline, "a job's folder stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let searched = files_without(&[SECRET], &server.data());
    assert!(searched > 3, "{searched} files were searched");
    let records = site.client.list(&["audit-records"], &[]).await.unwrap();
    let pulls = records
        .iter()
        .filter(|record| record["details"] == json!(["mode: state", "command: state pull"]));
    assert_eq!(pulls.count(), 2, "{records:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_state_that_is_not_the_environments_reports_nothing_of_it() {
    let site = site().await;
    let server = &site.server;
    deploy(server);
    let path = ["projects", PROJECT, "envs", ENV];
    let before = site.client.get(&path).await.unwrap()["state"].clone();
    let file = before["place"].as_str().unwrap().to_owned();
    let mut other: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    (other["lineage"], other["resources"]) = (json!("another"), json!([]));
    fs::write(&file, other.to_string()).unwrap();
    for command in [&["list"][..], &["pull"], &["rm", "terraform_data.a", "--yes"]] {
        let refused = server.canyon(&on_state(command[0], &command[1..]));
        assert!(refused.stderr.contains("is not the one that this environment has"), "{refused:?}");
        assert_eq!(site.client.get(&path).await.unwrap()["state"], before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_resources_leave_the_state_than_the_environment_allows() {
    let site = site().await;
    let server = &site.server;
    deploy(server);
    let protection = json!({ "deletion_protection": { "max_deletions": 2 } });
    site.client.update(&["projects", PROJECT, "envs", ENV], &protection).await.unwrap();
    let refused = server.canyon(&on_state("rm", &["terraform_data.b", "--yes"]));
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("removes 3 resources from the state"), "{}", refused.stderr);
    assert_eq!(listed(server).len(), 4);
    let unasked = server.canyon(&on_state("rm", &["terraform_data.b[0]"]));
    assert!(unasked.stderr.contains("there is no terminal to ask"), "{}", unasked.stderr);
    server.canyon(&on_state("rm", &["terraform_data.b[0]", "--yes"])).done();
    assert_eq!(listed(server).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_key_of_an_instance_is_masked_in_what_commands_on_the_state_return() {
    const KEPT: &str = "kept-value-of-a-key";
    let site = Site::new().await;
    let server = &site.server;
    fs::create_dir(server.path("module")).unwrap();
    let module = r#"
variable "key" {}
resource "terraform_data" "k" { for_each = toset([var.key, "other"]) }
"#;
    fs::write(server.path("module/main.tf"), module).unwrap();
    let variable = format!("key={KEPT}");
    server.canyon(&["set", "variable", "--project", PROJECT, "--secret", &variable]).done();
    deploy(server);
    let masked = format!("terraform_data.k[\"{}\"]", "*".repeat(KEPT.len()));
    assert_eq!(listed(server), [masked.as_str(), "terraform_data.k[\"other\"]"]);
    let removed = server.canyon(&on_state("rm", &["terraform_data.k", "--yes", "--out", "json"]));
    let removed: Value = serde_json::from_str(removed.done()).unwrap();
    let removed = &removed["outputs"]["removed"]["value"];
    assert_eq!(removed, &json!([masked, "terraform_data.k[\"other\"]"]));
    until_no_job(&server.data());
    assert!(files_without(&[KEPT], &server.data()) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_behind_a_deployment_whose_module_is_not_fetched_uses_the_one_before() {
    let site = site().await;
    let server = &site.server;
    deploy(server);
    // No program listens there: the deployment is tried again for minutes.
    let silent = "git::https://127.0.0.1:1/acme/net.git";
    let start = ["deploy", PROJECT, ENV, "--yes", "--no-wait", "--module", silent, "--out", "json"];
    let started: Value = serde_json::from_str(server.canyon(&start).done()).unwrap();
    let id = started["deployment"]["id"].as_str().unwrap();
    site.until(id, "an attempt", |deployment| !deployment.attempts.is_empty()).await;
    let body = DeploymentCreateBody {
        mode: RequestedMode::State,
        state_command: Some(StateCommand::List { addresses: Vec::new() }.into()),
        ..request(ENV, None)
    };
    let list = site.accept(&body).await;
    server.canyon(&["cancel", id]).done();
    assert_succeeded(&site.end(&list).await);
    let outputs = site.client.outputs(&list).await.unwrap();
    let listed = serde_json::to_value(&outputs["addresses"].value).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 4, "{listed}");
}
