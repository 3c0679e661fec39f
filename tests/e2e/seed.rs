//! The command line against a real server: a user's first commands, and exit codes.

use crate::harness::deployments::assert_succeeded;
use crate::harness::module::THIRTY;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use serde_json::Value;
use std::fs;

/// Compares with the snapshot of this name, which is the same for every wiring.
macro_rules! assert_snapshot {
    ($name:expr, $said:expr $(,)?) => {
        insta::with_settings!({ prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!($name, $said);
        })
    };
}

/// The example of a runner on GKE.
const GKE: &str = include_str!("gke-runner-config.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_gke_runner_is_created_from_its_file_read_changed_and_deleted() {
    let server = Server::start().await;
    fs::write(server.path("gke-runner-config.yaml"), GKE).unwrap();
    let create = ["create", "runner", "my-gke-runner", "--set-yaml=@gke-runner-config.yaml"];
    server.canyon(&create).done();
    server.canyon(&["create", "runner-rule", "--set=runner_id=my-gke-runner"]).done();

    let said = server.canyon(&["get", "runner", "my-gke-runner", "--out", "yaml"]);
    let yaml = said.done();
    // The definition comes back literally, between the fields that Canyon adds.
    for part in GKE.split("\nrunner_configuration:").skip(1) {
        for line in part.lines() {
            assert!(yaml.contains(line.trim()), "`{line}` is missing in\n{yaml}");
        }
    }
    assert_snapshot!("read", said.snapshot());

    let json = server.canyon(&["get", "runner", "my-gke-runner", "--out", "json"]);
    let runner: Value = serde_json::from_str(json.done()).unwrap();
    assert_eq!(runner["description"], "GKE runner for my-cluster in europe-west3");
    assert_eq!(
        runner["runner_configuration"]["cluster"]["auth"]["gcp_service_account"],
        "canyon-runner@my-gcp-project.iam.gserviceaccount.com"
    );
    assert_eq!(runner["state_storage_configuration"]["namespace"], "canyon-runner");

    assert_snapshot!("listed", server.canyon(&["list", "runners"]).snapshot());
    assert_snapshot!("made_twice", server.canyon(&create).snapshot());

    // The definition that was read can be written back with a change.
    let changed = GKE
        .replace("my-cluster in", "our cluster in")
        .replace("  job:\n    namespace: canyon-runner", "  job:\n    namespace: jobs");
    let update = ["update", "runner", "my-gke-runner", "--set-yaml=-"];
    server.canyon_with(&update, &changed, &[]).done();
    let json = server.canyon(&["get", "runner", "my-gke-runner", "--out", "json"]);
    let runner: Value = serde_json::from_str(json.done()).unwrap();
    assert_eq!(runner["description"], "GKE runner for our cluster in europe-west3");
    assert_eq!(runner["runner_configuration"]["job"]["namespace"], "jobs");

    assert_snapshot!("in_use", server.canyon(&["delete", "runner", "my-gke-runner"]).snapshot());
    let rules = server.canyon(&["list", "runner-rules", "--out", "json"]);
    let rules: Value = serde_json::from_str(rules.done()).unwrap();
    let rule = rules[0]["id"].as_str().unwrap();
    server.canyon(&["delete", "runner-rule", rule]).done();
    server.canyon(&["delete", "runner", "my-gke-runner"]).done();
    let gone = server.canyon(&["get", "runner", "my-gke-runner"]);
    assert_eq!(gone.code, 7, "{gone:?}");
}

/// A snapshot without the progress lines, whose number varies.
fn settled(said: &str) -> String {
    let moving = [
        "queued",
        "launching",
        "fetching",
        "initializing",
        "planning",
        "plan:",
        "starting",
        "applying",
        "destroying",
        "running",
        "  terraform_data",
    ];
    let stays = |line: &&str| !moving.iter().any(|start| line.starts_with(start));
    said.lines().filter(stays).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn deploy_ends_with_the_documented_exit_codes() {
    let site = Site::new().await;
    let deploy = ["deploy", PROJECT, ENV, "--module", "-"];
    let folder = site.server.path("net");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("main.tf"), THIRTY).unwrap();

    let ok =
        site.server.canyon(&["deploy", PROJECT, ENV, "--module", "./net", "--var", "greeting=hi"]);
    assert_eq!(ok.code, 0, "{ok:?}");
    assert_snapshot!("deployed", settled(&ok.snapshot()));

    let failed = site.server.canyon_with(&deploy, "output \"x\" {\n  value = var.y\n}\n", &[]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert_snapshot!("failed", settled(&failed.snapshot()));

    let usage = site.server.canyon(&["deploy", PROJECT, ENV, "--module", "./nowhere"]);
    assert_eq!(usage.code, 2, "{usage:?}");

    let no_server = [("CANYON_API_URL", "http://127.0.0.1:1")];
    let unreachable = site.server.canyon_with(&["list", "runners"], "", &no_server);
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
    assert_snapshot!("unreachable", unreachable.snapshot());

    let refused =
        site.server.canyon_with(&["deploy", PROJECT, "no-such-env", "--module", "-"], THIRTY, &[]);
    assert_eq!(refused.code, 9, "{refused:?}");
    assert_snapshot!("refused", refused.snapshot());

    let token = [("CANYON_TOKEN", "wrong")];
    let outsider = site.server.canyon_with(&["list", "runners"], "", &token);
    assert_eq!(outsider.code, 4, "{outsider:?}");

    let destroyed = site.server.canyon(&["deploy", PROJECT, ENV, "--destroy", "--yes"]);
    assert_eq!(destroyed.code, 0, "{destroyed:?}");
    assert_eq!(site.state(ENV).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_can_be_left_followed_and_read_by_the_command_line() {
    let site = Site::new().await;
    let deploy = ["deploy", PROJECT, ENV, "--module", "-", "--no-wait"];
    let started = site.server.canyon_with(&deploy, THIRTY, &[]);
    let id = started.done().trim().to_owned();
    let log = site.server.canyon(&["logs", &id, "-f"]);
    assert!(log.done().contains("apply"), "{log:?}");
    assert_succeeded(&site.end(&id).await);
    let outputs = site.server.canyon(&["outputs", &id, "--out", "json"]);
    assert!(outputs.done().contains("hello 0"), "{outputs:?}");
    let listed = site.server.canyon(&["list", "deployments", "--out", "json"]);
    assert!(listed.done().contains(&id));
    let over = site.server.canyon(&["cancel", &id]);
    assert_eq!(over.code, 9, "{over:?}");
}
