//! What prevents the move of a state, and how to resolve it.

use crate::harness::deployments::{assert_succeeded, counts, destruction, failure, request};
use crate::harness::module::inline;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::kept_state::{assert_wrong_state, deploying, things};
use crate::lost_reports::arm;
use canyon_api::deployment::DeploymentCreateBody;
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::fs;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn if_nothing_is_left_to_move_another_state_in_the_new_storage_belongs_to_no_environment() {
    let folder = tempfile::tempdir().unwrap();
    arm(folder.path(), false);
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    assert_eq!(failure(&site.run(&deploying(2, 1)).await).0, FailureClass::Lost);
    let new = site.server.path("new");
    site.keep_in(&new, true).await.unwrap();
    // A state of another environment.
    site.environment("other").await;
    assert_succeeded(&site.run(&request("other", Some(inline(things(2, 1))))).await);
    let other = site.client.get(&["projects", PROJECT, "envs", "other"]).await.unwrap();
    let state = fs::read(new.join(format!("{}.tfstate", other["uuid"].as_str().unwrap()))).unwrap();
    let place = site.file_in(&new).await;
    fs::write(&place, &state).unwrap();
    let (class, message) = failure(&site.run(&deploying(0, 1)).await);
    assert!(class == FailureClass::Config && message.contains("2 resources) is at"), "{message}");
    assert_eq!(fs::read(&place).unwrap(), state);
    fs::remove_file(&place).unwrap();
    let ended = site.run(&deploying(2, 1)).await;
    assert_succeeded(&ended);
    let log = site.log(&ended.id.to_string()).await;
    assert!(log.contains("left no state at"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_of_a_state_is_named_as_the_obstacle_and_a_lost_storage_can_be_replaced() {
    let site = Site::new().await;
    let (old, new) = (site.states(), site.server.path("new"));
    assert_succeeded(&site.run(&deploying(2, 1)).await);
    site.keep_in(&new, true).await.unwrap();
    assert_eq!(counts(&site.run(&deploying(2, 1)).await), (0, 0, 0));
    // The new storage is lost for good. Its mark is removed as docs/state.md describes, and an administrator accepts
    // the state that is there.
    fs::remove_dir_all(&new).unwrap();
    site.keep_in(&old, true).await.unwrap();
    let file = site.file_in(&old).await;
    let accepting = || DeploymentCreateBody { accept_state: true, ..deploying(2, 1) };
    let (_, message) = failure(&site.run(&accepting()).await);
    assert!(message.contains("remove the mark"), "{message}");
    let mut state: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    state["outputs"].as_object_mut().unwrap().remove("canyon_state_moved_to").unwrap();
    state["serial"] = json!(state["serial"].as_u64().unwrap() + 1);
    fs::write(&file, state.to_string()).unwrap();
    assert_eq!(counts(&site.run(&accepting()).await), (0, 0, 0));

    // An environment without resources returns to a storage where an old copy exists.
    site.keep_in(&new, true).await.unwrap();
    assert_eq!(counts(&site.run(&deploying(2, 1)).await), (0, 0, 0));
    assert_succeeded(&site.run(&destruction(ENV)).await);
    site.keep_in(&old, false).await.unwrap();
    for body in [deploying(2, 1), accepting()] {
        let (class, message) = failure(&site.run(&body).await);
        assert!(class == FailureClass::Config && message.contains("Remove that copy"), "{message}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(counts(&site.run(&deploying(2, 1)).await), (2, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_a_successful_run_wrote_but_could_not_read_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let (tofu, away) = (programs::given("CANYON_TEST_TOFU"), folder.path().join("away"));
    programs::script(
        &folder.path().join("tofu"),
        &format!(
            "if [ \"$1 $2\" = 'state pull' ] && [ -e '{}' ]; then echo 403 >&2; exit 1; fi\nexec '{}' \"$@\"\n",
            away.display(),
            tofu.display()
        ),
    );
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    fs::write(&away, "").unwrap();
    assert_succeeded(&site.run(&deploying(2, 1)).await);
    fs::remove_file(&away).unwrap();
    let file = site.state_file(ENV).await;
    let state = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    for run in [deploying(2, 1), destruction(ENV)] {
        let (class, message) = failure(&site.run(&run).await);
        assert!(
            class == FailureClass::Config && message.contains("there is no state"),
            "{message}"
        );
    }
    fs::write(&file, state).unwrap();
    assert_eq!(counts(&site.run(&deploying(2, 1)).await), (0, 0, 0));
    assert_ne!(site.shown().await["state"]["uncertain"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_was_placed_by_hand_is_detected_before_anything_is_applied() {
    let site = Site::new().await;
    assert_succeeded(&site.run(&deploying(3, 1)).await);
    site.environment("adopts").await;
    fs::copy(site.state_file(ENV).await, site.state_file("adopts").await).unwrap();
    let module = |count| Some(inline(things(count, 1)));
    let shown = async || site.client.get(&["projects", PROJECT, "envs", "adopts"]).await.unwrap();
    let delete = async || site.client.delete(&["projects", PROJECT, "envs", "adopts"], &[]).await;
    assert_eq!(shown().await["state"], json!(null), "no run has looked");

    // A plan, and a run that is not allowed the deletions that it needs.
    let plan = DeploymentCreateBody { plan_only: Some(true), ..request("adopts", module(1)) };
    assert_succeeded(&site.run(&plan).await);
    assert_eq!(shown().await["state"]["resources"], 3);
    let refused = delete().await.unwrap_err();
    let words = refused.to_string();
    assert!(refused.status() == Some(409) && words.contains("has 3 resources"), "{words}");
    let bounded = DeploymentCreateBody { max_deletions: Some(0), ..request("adopts", module(1)) };
    let (_, message) = failure(&site.run(&bounded).await);
    assert!(message.contains("2 resources"), "{message}");
    assert_eq!(delete().await.unwrap_err().status(), Some(409));
    site.keep_in(&site.server.path("new"), false).await.unwrap_err();

    // Once its module is deployed, the environment is like every other.
    assert_eq!(counts(&site.run(&request("adopts", module(3))).await), (0, 0, 0));
    assert_succeeded(&site.run(&destruction("adopts")).await);
    delete().await.unwrap();
}

/// A module that replaces the state with `copy` while its second resource is created, as a restored backup would, and
/// keeps the state that OpenTofu writes.
fn swapping(copy: &Path, place: &Path, fails: bool) -> String {
    let (copy, place) = (copy.display(), place.display());
    let end = if fails { "exit 1" } else { "true" };
    format!(
        "resource \"terraform_data\" \"thing\" {{\n  count = 2\n}}\n\
         resource \"terraform_data\" \"swap\" {{\n  provisioner \"local-exec\" {{\n    command = \"ln {place} {place}.kept && \
         cp {copy} {place}.new && mv {place}.new {place}; {end}\"\n  }}\n}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_replaced_during_an_apply_is_not_accepted_as_its_result() {
    for fails in [false, true] {
        let site = Site::new().await;
        assert_succeeded(&site.run(&deploying(1, 1)).await);
        let place = site.file_in(&site.states()).await;
        let copy = site.server.path("copy");
        fs::copy(&place, &copy).unwrap();
        if fails {
            let mut other: serde_json::Value =
                serde_json::from_slice(&fs::read(&copy).unwrap()).unwrap();
            other["lineage"] = json!("11111111-2222-3333-4444-555555555555");
            fs::write(&copy, other.to_string()).unwrap();
        }
        let ended = site.run(&request(ENV, Some(inline(swapping(&copy, &place, fails))))).await;
        assert_eq!(ended.status == "succeeded", !fails, "{ended:#?}");
        let log = site.log(&ended.id.to_string()).await;
        assert!(log.contains("is not what this run has written"), "{log}");
        let shown = site.shown().await;
        assert_eq!(shown["state"]["uncertain"], true, "{shown}");
        let words = if fails { "lineage" } else { "before the last run" };
        assert_wrong_state(&site.run(&deploying(3, 1)).await, words);
        // The state is not moved either: in the new storage nothing would show its origin.
        site.keep_in(&site.server.path("elsewhere"), true).await.unwrap();
        let (class, message) = failure(&site.run(&deploying(3, 1)).await);
        assert!(class == FailureClass::Config && message.contains(words), "{message}");
        assert!(message.contains("--accept-state"), "{message}");
        // The state that OpenTofu wrote is put back.
        fs::rename(format!("{}.kept", place.display()), &place).unwrap();
        assert_succeeded(&site.run(&deploying(2, 1)).await);
        assert_eq!(site.shown().await["state"]["resources"], 2);
    }
}
