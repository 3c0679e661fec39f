//! After a run that never reported its result, its state is still the environment's.

use crate::harness::deployments::{assert_succeeded, counts, destruction, failure, request};
use crate::harness::module::inline;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::kept_state::{assert_wrong_state, deploying, killing_tofu, things};
use canyon_api::deployment::{DeploymentCreateBody, DeploymentQuery};
use canyon_api::page::PageQuery;
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::fs;
use std::path::Path;

/// The next apply kills its runner, after or before its work.
pub(crate) fn arm(folder: &Path, after: bool) {
    let _ = fs::remove_file(folder.join("count-apply"));
    killing_tofu(folder, "apply", 1, after);
    fs::write(folder.join("armed"), "").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_run_that_never_reported_the_state_is_still_the_environments() {
    let folder = tempfile::tempdir().unwrap();
    arm(folder.path(), true);
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    // A number that OpenTofu stores and other parsers do not makes no difference.
    let module = || inline(things(2, 1) + "output \"large\" { value = 1e400 }\n");
    let deploying = |env: &str| request(env, Some(module()));
    let lost = async |env: &str| {
        assert_eq!(failure(&site.run(&deploying(env)).await).0, FailureClass::Lost);
    };

    // Canyon knows only that resources may exist, so a state from another storage is not accepted as this one.
    lost(ENV).await;
    assert_eq!(site.shown().await["state"]["uncertain"], true);
    let file = site.state_file(ENV).await;
    let good = fs::read(&file).unwrap();
    let moved =
        String::from_utf8(good.clone()).unwrap().replace("\"large\"", "\"canyon_state_moved_to\"");
    let moved = moved.replace("\"number\"", "\"string\"");
    let value = moved.find("\"value\":").unwrap() + 8;
    let end = value + moved[value..].find(',').unwrap();
    fs::write(&file, format!("{} \"elsewhere\"{}", &moved[..value], &moved[end..])).unwrap();
    let (class, message) = failure(&site.run(&deploying(ENV)).await);
    assert!(
        class == FailureClass::Config && message.contains("was moved to `elsewhere`"),
        "{message}"
    );
    fs::write(&file, &good).unwrap();
    assert_eq!(counts(&site.run(&deploying(ENV)).await), (0, 0, 0));

    // The version that the last run left, without its resources.
    let mut emptied = String::from_utf8(fs::read(&file).unwrap()).unwrap();
    let kept = emptied.clone();
    let from = emptied.find("\"resources\":").unwrap();
    let to = emptied.rfind("\"check_results\"").unwrap();
    emptied.replace_range(from..to, "\"resources\": [],");
    fs::write(&file, emptied).unwrap();
    assert_wrong_state(&site.run(&deploying(ENV)).await, "0 resources instead of 2");
    fs::write(&file, kept).unwrap();

    // The first run left no resources; the second run never reported.
    assert_succeeded(&site.run(&destruction(ENV)).await);
    arm(folder.path(), true);
    lost(ENV).await;
    let good = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_wrong_state(&site.run(&deploying(ENV)).await, "there is no state");
    fs::write(&file, &good).unwrap();
    assert_eq!(counts(&site.run(&deploying(ENV)).await), (0, 0, 0));

    // If the run created resources, no state lists them: a person must decide that the environment can be deleted.
    site.environment("quiet").await;
    arm(folder.path(), false);
    lost("quiet").await;
    let quiet = ["projects", PROJECT, "envs", "quiet"];
    site.server.canyon(&["delete", "environment", PROJECT, "quiet", "--yes"]).done();
    let query = DeploymentQuery::default();
    let newest = site.client.deployments(&query, &PageQuery::default()).await.unwrap();
    assert_succeeded(&site.end(&newest.items[0].id.to_string()).await);
    let kept = site.client.get(&quiet).await.unwrap();
    assert_eq!(kept["status"], "delete_failed", "{kept}");
    assert!(kept["status_message"].as_str().unwrap().contains("--force"), "{kept}");
    assert_eq!(kept["state"]["uncertain"], true, "{kept}");
    let refused = site.client.delete(&quiet, &[]).await.unwrap_err();
    assert!(refused.to_string().contains("did not report everything that it left"), "{refused}");
    site.client.delete(&quiet, &[("force", "true".to_owned())]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_was_cancelled_in_the_queue_undoes_no_move() {
    let site = Site::new().await;
    let new = site.server.path("new");
    assert_succeeded(&site.run(&deploying(3, 1)).await);
    site.keep_in(&new, true).await.unwrap();
    let held = site.server.path("hold");
    fs::write(&held, "").unwrap();
    let wait = format!("while [ -e '{}' ]; do sleep 0.05; done", held.display());
    let slow = things(3, 1)
        + &format!(
            "resource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    command = {wait:?}\n  }}\n}}\n"
        );
    let moving = site.accept(&request(ENV, Some(inline(slow.clone())))).await;
    site.until(&moving, "the apply", |found| {
        found.attempts.last().is_some_and(|attempt| attempt.phase == "apply")
    })
    .await;
    let waiting = site.accept(&deploying(1, 1)).await;
    site.client.cancel(&waiting).await.unwrap();
    assert_eq!(site.end(&waiting).await.status, "cancelled");
    // The storage cannot be changed while a run is active.
    site.keep_in(&site.server.path("third"), false).await.unwrap_err();
    fs::remove_file(&held).unwrap();
    assert_succeeded(&site.end(&moving).await);
    let shown = site.shown().await;
    assert!(shown["state"]["place"].as_str().unwrap().contains("/new/"), "{shown}");
    assert_eq!(counts(&site.run(&request(ENV, Some(inline(slow)))).await), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_of_a_lost_run_in_a_new_storage_are_found_there() {
    let folder = tempfile::tempdir().unwrap();
    arm(folder.path(), false);
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    let (old, new) = (site.states(), site.server.path("new"));
    let lost = async || {
        assert_eq!(failure(&site.run(&deploying(3, 1)).await).0, FailureClass::Lost);
    };
    // Neither run reports what it left: the first left nothing, the second three resources at the new place.
    lost().await;
    site.keep_in(&new, true).await.unwrap();
    arm(folder.path(), true);
    lost().await;
    site.keep_in(&old, false).await.unwrap();
    let accepting = DeploymentCreateBody { accept_state: true, ..deploying(3, 1) };
    for run in [deploying(3, 1), accepting] {
        let (class, message) = failure(&site.run(&run).await);
        assert!(class == FailureClass::Config && message.contains("was moved to"), "{message}");
    }
    site.keep_in(&new, true).await.unwrap();
    assert_eq!(counts(&site.run(&deploying(3, 1)).await), (0, 0, 0));

    // A leftover of the environment itself, once it has no resources, is not the state that it has.
    let leftover = fs::read(site.file_in(&new).await).unwrap();
    assert_succeeded(&site.run(&destruction(ENV)).await);
    site.keep_in(&old, false).await.unwrap();
    fs::write(site.file_in(&old).await, &leftover).unwrap();
    for _ in 0..2 {
        assert_wrong_state(&site.run(&deploying(3, 1)).await, "this environment has none");
    }
    fs::remove_file(site.file_in(&old).await).unwrap();
    assert_eq!(counts(&site.run(&deploying(3, 1)).await), (3, 0, 0));

    // A lost run moves the state and creates a fourth resource; then the former storage is restored, without the
    // mark. The next move does not overwrite the newer state.
    let backup = fs::read(site.file_in(&old).await).unwrap();
    let newest = site.server.path("newest");
    site.keep_in(&newest, true).await.unwrap();
    arm(folder.path(), true);
    assert_eq!(failure(&site.run(&deploying(4, 1)).await).0, FailureClass::Lost);
    fs::write(site.file_in(&old).await, &backup).unwrap();
    let moved = fs::read(site.file_in(&newest).await).unwrap();
    let (class, message) = failure(&site.run(&deploying(4, 1)).await);
    assert!(class == FailureClass::Config && message.contains("4 resources) is at"), "{message}");
    assert_eq!(fs::read(site.file_in(&newest).await).unwrap(), moved);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_run_that_leaves_resources_and_never_reports_leaves_a_doubt() {
    let folder = tempfile::tempdir().unwrap();
    // After the deployment, before the destroy run's plan, and after its apply.
    killing_tofu(folder.path(), "state pull", 3, false);
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    let kept = "resource \"terraform_data\" \"kept\" {\n  lifecycle { destroy = false }\n}\n";
    assert_succeeded(&site.run(&request(ENV, Some(inline(things(1, 1) + kept)))).await);
    fs::write(folder.path().join("armed"), "").unwrap();
    assert_eq!(failure(&site.run(&destruction(ENV)).await).0, FailureClass::Lost);
    assert_eq!(site.shown().await["state"]["uncertain"], true);
    let refused = site.client.delete(&["projects", PROJECT, "envs", ENV], &[]).await;
    assert!(refused.is_err() || site.shown().await["status"] != "active", "{refused:?}");
    let query = DeploymentQuery::default();
    let newest = site.client.deployments(&query, &PageQuery::default()).await.unwrap();
    site.end(&newest.items[0].id.to_string()).await;
    assert_eq!(site.shown().await["status"], "delete_failed");
}
