//! A run that does not get all of OpenTofu's messages, or gets messages of another OpenTofu, changes nothing
//! by mistake.

use crate::harness::deployments::{assert_succeeded, destruction, failure, request};
use crate::harness::module::inline;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use crate::kept_state::{deploying, things};
use canyon_api::deployment::DeploymentCreateBody;
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_did_not_report_its_deletions_is_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    let (tofu, said) = (programs::given("CANYON_TEST_TOFU"), folder.path().join("said"));
    let full = folder.path().join("full");
    // A full disk has room for the plan, which OpenTofu writes first, but not for its messages.
    programs::script(
        &folder.path().join("tofu"),
        &format!(
            "'{tofu}' \"$@\" > '{said}'; code=$?\n\
             if [ -e '{full}' ]; then grep -v change_summary '{said}'; else cat '{said}'; fi\n\
             exit $code\n",
            tofu = tofu.display(),
            said = said.display(),
            full = full.display()
        ),
    );
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    assert_succeeded(&site.run(&deploying(3, 1)).await);
    fs::write(&full, "").unwrap();
    for max_deletions in [Some(0), None] {
        let run = DeploymentCreateBody { max_deletions, ..deploying(0, 1) };
        let (class, message) = failure(&site.run(&run).await);
        assert_eq!(class, FailureClass::Config, "{message}");
        assert!(message.contains("without a summary of its changes"), "{message}");
        assert_eq!(site.state(ENV).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_that_the_provider_does_not_find_count_as_deletions() {
    let folder = tempfile::tempdir().unwrap();
    let (tofu, lost) = (programs::given("CANYON_TEST_TOFU"), folder.path().join("lost"));
    // The line of a refresh that finds nothing, as OpenTofu 1.12 writes it.
    let drift = r#"{"type":"resource_drift","change":{"resource":{"addr":"terraform_data.thing[1]"},"action":"delete"}}"#;
    let script = format!(
        "if [ -e '{}' ] && [ \"$1\" = plan ]; then echo '{drift}'; fi\nexec '{}' \"$@\"\n",
        lost.display(),
        tofu.display()
    );
    programs::script(&folder.path().join("tofu"), &script);
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    assert_succeeded(&site.run(&deploying(3, 1)).await);
    fs::write(&lost, "").unwrap();
    // One more resource is created, so that there is something to apply.
    let run = |max_deletions| DeploymentCreateBody { max_deletions, ..deploying(4, 1) };
    let ended = site.run(&run(Some(0))).await;
    let (class, message) = failure(&ended);
    assert_eq!((class, ended.refused_deletions), (FailureClass::User, Some(1)), "{message}");
    for part in ["deletes or replaces 0 resources", "1 were not found by their provider"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    assert_eq!(site.state(ENV).await.len(), 3);
    assert_succeeded(&site.run(&run(Some(1))).await);
    assert_succeeded(
        &site.run(&DeploymentCreateBody { max_deletions: None, ..deploying(5, 1) }).await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_meets_the_lock_of_another_state_is_not_repeated() {
    let site = Site::new().await;
    let runs = site.server.path("runs");
    // The output of a nested `tofu` that finds its own state locked.
    let words = "Error: Error acquiring the state lock\\nLock Info:\\n  ID:        6c8d\\n  Who:       \
                 alice@buildbox\\n  Created:   2026-11-21 10:04:47.123456789 +0000 UTC\\n";
    let nested = format!(
        "resource \"terraform_data\" \"nested\" {{\n  provisioner \"local-exec\" {{\n    command = \
         \"echo x >> '{}'; printf '{}' >&2; exit 1\"\n  }}\n}}\n",
        runs.display(),
        words.replace('\\', "\\\\")
    );
    let ended = site.run(&request(ENV, Some(inline(things(2, 1) + &nested)))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::User, "{message}");
    assert!(message.contains("local-exec provisioner error"), "{message}");
    assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 1, "it ran once");
    let log = site.log(&ended.id.to_string()).await;
    assert!(!log.contains("is locked by"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_crashes_leaves_the_environment_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let (tofu, made) = (programs::given("CANYON_TEST_TOFU"), folder.path().join("made"));
    let path = programs::search_path(Some(folder.path()));
    let site = Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await;
    let twice = r#"{"@message":"Two interrupts received. Exiting immediately.","type":"log"}"#;
    for ending in ["exit 11".to_owned(), format!("echo '{twice}'; exit 1")] {
        // OpenTofu ends after it has created a resource, and before its state lists it.
        programs::script(
            &folder.path().join("tofu"),
            &format!(
                "if [ \"$1\" != apply ]; then exec '{tofu}' \"$@\"; fi\n\
                 '{tofu}' \"$@\" & until [ -e '{made}' ]; do sleep 0.05; done\n\
                 kill -9 $!; wait $!; {ending}\n",
                tofu = tofu.display(),
                made = made.display(),
            ),
        );
        let module = format!(
            "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"touch '{}'; \
             sleep 5\"\n  }}\n}}\n",
            made.display()
        );
        let ended = site.run(&request(ENV, Some(inline(module)))).await;
        assert_eq!(ended.status, "failed", "{ending}: {ended:?}");
        let shown = site.shown().await;
        assert_eq!(shown["state"]["uncertain"], true, "{ending}: {shown}");
        let orphans = site.client.orphans(&ended.id.to_string()).await.unwrap();
        let named: Vec<_> = orphans.iter().map(|orphan| orphan.address.as_str()).collect();
        assert_eq!(named, ["terraform_data.a"], "{ending}");
        fs::remove_file(&made).unwrap();
        // A complete deployment removes the doubt of this round.
        fs::remove_file(folder.path().join("tofu")).unwrap();
        programs::script(
            &folder.path().join("tofu"),
            &format!("exec '{}' \"$@\"\n", tofu.display()),
        );
        assert_succeeded(&site.run(&deploying(1, 1)).await);
        assert_succeeded(&site.run(&destruction(ENV)).await);
        assert_ne!(site.shown().await["state"]["uncertain"], true, "{ending}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_by_the_name_of_the_mark_is_refused_before_anything_is_created() {
    let site = Site::new().await;
    let marked = things(1, 1) + "output \"canyon_state_moved_to\" { value = \"x\" }\n";
    let (class, message) = failure(&site.run(&request(ENV, Some(inline(marked)))).await);
    assert!(class == FailureClass::User && message.contains("give it another name"), "{message}");
    assert_succeeded(&site.run(&deploying(1, 1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_with_long_types_do_not_fail_the_run() {
    let site = Site::new().await;
    let wide = "output \"wide\" {\n  value = [for i in range(1000) : { for j in range(100) : \"attribute_${j}\" => \"v\" }]\n}\n\
                output \"word\" { value = \"whole\" }\n";
    let ended = site.run(&request(ENV, Some(inline(things(1, 1) + wide)))).await;
    assert_succeeded(&ended);
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    let outputs = serde_json::to_value(&outputs).unwrap().to_string();
    assert!(outputs.contains("\"whole\"") && outputs.contains("\"wide\""), "{outputs}");
    assert_ne!(site.shown().await["state"]["uncertain"], true);
}
