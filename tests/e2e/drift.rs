//! Drift: a file that is changed behind Canyon's back is found, and a check is in the way of no deployment.

use crate::harness::deployments::{assert_succeeded, counts, request};
use crate::harness::module::inline;
use crate::harness::programs::given;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::Deployment;
use canyon_api::drift::DriftDetails;
use canyon_api::plan::PlannedAction;
use canyon_domain::drift::{DriftKind, DriftStatus};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const PLATFORM: &str = if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" };

/// A site whose jobs find the provider `hashicorp/local` on this machine.
async fn site() -> Site {
    let server = Server::start().await;
    let mirror = server.path("mirror");
    let version = mirror.join("registry.opentofu.org/hashicorp/local/2.9.0").join(PLATFORM);
    fs::create_dir_all(&version).unwrap();
    let provider = given("CANYON_TEST_PROVIDER_LOCAL");
    fs::copy(fs::canonicalize(provider).unwrap(), version.join("terraform-provider-local"))
        .unwrap();
    let file = server.path("tofurc");
    let text = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
        mirror.display()
    );
    fs::write(&file, text).unwrap();
    Site::on(server, &json!({ "environment": { "TF_CLI_CONFIG_FILE": file } })).await
}

/// A module with a file in `folder`, and another one.
fn module(folder: &Path) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        "terraform {{\n  required_providers {{\n    local = {{ source = \"hashicorp/local\" }}\n  }}\n}}\n\
         resource \"local_file\" \"greeting\" {{\n  filename = \"{}\"\n  content = \"hello\"\n}}\n\
         resource \"local_file\" \"note\" {{\n  filename = \"{}\"\n  content = \"a note\"\n}}\n",
        path("greeting"),
        path("note")
    )
}

impl Site {
    async fn drift(&self) -> DriftDetails {
        self.client.drift(PROJECT, ENV).await.unwrap()
    }

    async fn checked(&self) -> Deployment {
        let check = self.client.check_drift(PROJECT, ENV).await.unwrap();
        self.end(&check.id.to_string()).await
    }
}

/// Replaces a file by a pipe without a writer: a program that reads it waits.
fn block(file: &Path) {
    fs::remove_file(file).unwrap();
    let made = Command::new("mkfifo").arg(file).status().unwrap();
    assert!(made.success());
}

/// Waits until a program reads the pipe, which then waits until the answer is dropped.
fn held_reader(pipe: &Path) -> File {
    let (sender, opened) = mpsc::channel();
    let pipe = pipe.to_owned();
    // Opening a pipe for writing waits for its reader.
    thread::spawn(move || sender.send(File::options().write(true).open(pipe)));
    opened.recv_timeout(Duration::from_mins(2)).expect("a program reads the pipe").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_edited_elsewhere_is_drift_until_a_deployment_puts_it_right() {
    let site = site().await;
    let folder = site.server.path("files");
    let check = |site: &Site| site.server.canyon(&["drift", "check", PROJECT, ENV, "--wait"]);
    assert_eq!(check(&site).code, 9, "nothing was deployed");
    let deployed = site.deploy(inline(module(&folder))).await;
    assert_eq!(site.drift().await.drift.status, DriftStatus::Unknown);
    let clean = check(&site);
    assert_eq!(clean.code, 0, "{}", clean.snapshot());
    let found = site.drift().await;
    assert_eq!((found.drift.status, found.drift.num_resources), (DriftStatus::InSync, 2));

    fs::write(folder.join("greeting"), "hunter2").unwrap();
    let drifted = check(&site);
    assert_eq!(drifted.code, 2, "{}", drifted.snapshot());
    assert!(drifted.snapshot().contains("local_file.greeting"), "{}", drifted.snapshot());
    let found = site.drift().await;
    assert_eq!((found.drift.status, found.drift.num_drifted), (DriftStatus::Drifted, 1));
    let change = &found.changes[0];
    assert_eq!((change.address.as_str(), change.kind), ("local_file.greeting", DriftKind::Outside));
    assert_eq!(change.action, PlannedAction::Create, "the provider finds another file there");
    let id = found.drift.deployment_id.unwrap().to_string();
    let log = site.log(&id).await;
    assert!(log.contains("local_file.greeting") && !log.contains("hunter2"), "{log}");
    let events = json!(site.events(&id).await).to_string();
    assert!(!events.contains("hunter2"), "{events}");

    // It is in the list of checks, and in no list of deployments.
    let listed = site.server.canyon(&[
        "list",
        "deployments",
        "--project",
        PROJECT,
        "--environment",
        ENV,
        "-o",
        "json",
    ]);
    let listed: Value = serde_json::from_str(listed.done()).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(found.history.len(), 2);
    let all = site.server.canyon(&["drift", "--status", "drifted", "-o", "json"]);
    let all: Value = serde_json::from_str(all.done()).unwrap();
    assert_eq!(all[0]["env_id"], ENV, "{all}");

    // What is ignored counts for nothing, and is shown.
    let update = |set: &str| {
        site.server.canyon(&["update", "environment", PROJECT, ENV, set]).done();
    };
    update(r#"--set-yaml=drift_ignore: [{address: "local_file.gree*"}]"#);
    let ended = site.checked().await;
    assert_succeeded(&ended);
    let found = site.drift().await;
    assert_eq!((found.drift.status, found.drift.num_ignored), (DriftStatus::InSync, 1));
    assert!(found.changes[0].ignored);
    let text = site.server.canyon(&["drift", PROJECT, ENV]);
    let text = text.done();
    assert!(text.contains("1 ignored by the environment's `drift_ignore`"), "{text}");
    update("--set-yaml=drift_ignore: []");
    assert_succeeded(&site.checked().await);
    assert_eq!(site.drift().await.drift.status, DriftStatus::Drifted);

    // A check that fails says nothing about drift.
    let (mirror, away) = (site.server.path("mirror"), site.server.path("away"));
    fs::rename(&mirror, &away).unwrap();
    let failed = check(&site);
    assert_eq!(failed.code, 1, "{}", failed.snapshot());
    assert_eq!(site.drift().await.drift.status, DriftStatus::Failed);
    fs::rename(&away, &mirror).unwrap();

    let again = site.deploy(inline(module(&folder))).await;
    assert_eq!(counts(&again), (1, 0, 0));
    let found = site.drift().await;
    assert_eq!((found.drift.status, found.changes.len()), (DriftStatus::InSync, 0));
    assert_ne!(deployed.id, again.id);
    assert_eq!(fs::read_to_string(folder.join("greeting")).unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_ends_the_check_of_its_environment_and_does_not_wait_for_it() {
    let site = site().await;
    let folder = site.server.path("files");
    site.deploy(inline(module(&folder))).await;
    block(&folder.join("greeting"));
    let check = site.client.check_drift(PROJECT, ENV).await.unwrap().id.to_string();
    site.until(&check, "the check", |check| check.status == "running").await;
    let again = site.client.check_drift(PROJECT, ENV).await.unwrap();
    assert_eq!(again.id.to_string(), check, "one check at a time");
    // The check has the pipe open; a deployment finds a file again.
    let _held = held_reader(&folder.join("greeting"));
    fs::remove_file(folder.join("greeting")).unwrap();
    fs::write(folder.join("greeting"), "hello").unwrap();
    site.deploy(inline(module(&folder))).await;
    let ended = site.end(&check).await;
    assert_eq!(ended.status, "cancelled", "{ended:?}");
    assert!(ended.status_message.contains("a deployment comes first"), "{ended:?}");
    let found = site.drift().await;
    assert_eq!((found.drift.status, found.drift.checking), (DriftStatus::InSync, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_gives_its_slot_to_a_deployment_of_another_environment() {
    let site = site().await;
    // Before the first launch, because the launcher knows the limits for some seconds.
    let limit = json!({ "max_jobs": 1 });
    site.client.put(&["concurrency-limits", "organization"], &limit).await.unwrap();
    let folder = site.server.path("files");
    site.deploy(inline(module(&folder))).await;
    site.environment("other").await;
    block(&folder.join("greeting"));
    let check = site.client.check_drift(PROJECT, ENV).await.unwrap().id.to_string();
    site.until(&check, "the check", |check| check.status == "running").await;
    let other = request("other", Some(inline("output \"one\" { value = 1 }")));
    assert_succeeded(&site.run(&other).await);
    let ended = site.end(&check).await;
    assert_eq!(ended.status, "cancelled", "{ended:?}");
    assert_eq!(site.drift().await.drift.checking, None);
}

/// A schedule of checks whose only due time is soon.
async fn schedule_check(site: &Site, id: &str, reconcile: bool) {
    let at = Timestamp::now() + SignedDuration::from_secs(5);
    let body = json!({ "id": id, "kind": "drift", "at": at, "reconcile": reconcile });
    site.make(&["projects", PROJECT, "envs", ENV, "schedules"], &body).await;
}

/// Waits until the environment's drift is as `wanted`.
async fn until_drift(site: &Site, wanted: impl Fn(&DriftDetails) -> bool) -> DriftDetails {
    let begun = Instant::now();
    loop {
        let found = site.drift().await;
        if wanted(&found) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "{found:#?}\n{}", site.server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_finds_drift_at_its_time_and_another_undoes_it() {
    let site = site().await;
    let folder = site.server.path("files");
    site.deploy(inline(module(&folder))).await;
    fs::write(folder.join("note"), "edited").unwrap();
    schedule_check(&site, "watch", false).await;
    let is_drifted = |found: &DriftDetails| found.drift.status == DriftStatus::Drifted;
    let found = until_drift(&site, is_drifted).await;
    assert_eq!(found.changes[0].address, "local_file.note");
    assert_eq!(fs::read_to_string(folder.join("note")).unwrap(), "edited", "it only looks");

    schedule_check(&site, "repair", true).await;
    let is_undone = |found: &DriftDetails| found.drift.status == DriftStatus::InSync;
    let found = until_drift(&site, is_undone).await;
    assert_eq!(fs::read_to_string(folder.join("note")).unwrap(), "a note");
    assert_eq!(found.history.len(), 2, "{found:#?}");
    let newest = site.server.canyon(&["list", "deployments", "-o", "json"]);
    let newest: Value = serde_json::from_str(newest.done()).unwrap();
    assert_eq!(newest[0]["mode"], "rollback", "what was deployed last, again: {newest}");
}
