//! No state is abandoned: a run works only on the state of its environment, and a state moves only at an
//! administrator's request, whichever process is killed during the move.

use crate::harness::deployments::{assert_succeeded, counts, destruction, failure, request};
use crate::harness::module::inline;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use canyon_api::client::ClientError;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, DeploymentQuery};
use canyon_api::page::PageQuery;
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// `count` resources; another `round` replaces them.
pub(crate) fn things(count: u32, round: u32) -> String {
    format!(
        "resource \"terraform_data\" \"thing\" {{\n  count = {count}\n  triggers_replace = {round}\n}}\n"
    )
}

pub(crate) fn deploying(count: u32, round: u32) -> DeploymentCreateBody {
    request(ENV, Some(inline(things(count, round))))
}

impl Site {
    pub(crate) async fn shown(&self) -> Value {
        self.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap()
    }

    pub(crate) async fn keep_in(&self, folder: &Path, migrate: bool) -> Result<Value, ClientError> {
        let body = json!({
            "state_storage_configuration": { "type": "local", "path": folder },
            "migrate": migrate,
        });
        self.client.update(&["runners", RUNNER], &body).await
    }

    pub(crate) async fn file_in(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.tfstate", self.shown().await["uuid"].as_str().unwrap()))
    }
}

fn read(state: &Path) -> Value {
    serde_json::from_slice(&fs::read(state).unwrap()).unwrap()
}

#[track_caller]
pub(crate) fn assert_wrong_state(deployment: &Deployment, why: &str) {
    let (class, message) = failure(deployment);
    assert_eq!(class, FailureClass::Config, "{message}");
    assert!(message.contains(why) && message.contains("--accept-state"), "{message}");
    let planned = deployment.metrics.num_tf_resources_added.unwrap_or_default();
    assert_eq!(planned, 0, "nothing was planned: {deployment:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_storage_is_refused_while_resources_would_be_left_and_a_move_takes_them_along() {
    let site = Site::new().await;
    // No state exists yet, so none can be left behind.
    let (old, new) = (site.server.path("old"), site.server.path("new"));
    site.keep_in(&old, false).await.unwrap();
    assert_succeeded(&site.run(&deploying(3, 1)).await);
    let before = site.shown().await["state"].clone();
    assert_eq!(before["resources"], 3);
    assert_eq!(before["place"], site.file_in(&old).await.to_str().unwrap());

    let refused = site.keep_in(&new, false).await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    let ClientError::Refused { body, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(body.details["environments"], json!([{ "project_id": PROJECT, "id": ENV }]));
    assert_succeeded(&site.run(&deploying(3, 1)).await);

    site.keep_in(&new, true).await.unwrap();
    // A plan reads the state where it is, and moves nothing.
    let plan = DeploymentCreateBody { plan_only: Some(true), ..deploying(4, 1) };
    assert_succeeded(&site.run(&plan).await);
    assert!(!site.file_in(&new).await.exists());
    let moved = site.run(&deploying(4, 1)).await;
    assert_succeeded(&moved);
    assert_eq!(counts(&moved), (1, 0, 0), "nothing is created a second time");
    let after = site.shown().await["state"].clone();
    assert_eq!(after["place"], site.file_in(&new).await.to_str().unwrap());
    assert_eq!((&after["lineage"], &after["resources"]), (&before["lineage"], &json!(4)));
    let kept = read(&site.file_in(&old).await);
    assert_eq!(kept["resources"][0]["instances"].as_array().unwrap().len(), 3, "kept whole");
    assert_eq!(kept["outputs"]["canyon_state_moved_to"]["value"], after["place"]);
    assert_eq!(read(&site.file_in(&new).await)["outputs"], json!({}), "the module's own outputs");

    // The state also moves back.
    site.keep_in(&old, true).await.unwrap();
    let back = site.run(&deploying(4, 1)).await;
    assert_succeeded(&back);
    assert_eq!(counts(&back), (0, 0, 0));
    // Another name of the same folder.
    let link = site.server.path("link");
    std::os::unix::fs::symlink(&old, &link).unwrap();
    site.keep_in(&link, true).await.unwrap();
    assert_eq!(counts(&site.run(&deploying(4, 1)).await), (0, 0, 0));
    let destroyed = site.run(&destruction(ENV)).await;
    assert_succeeded(&destroyed);
    assert_eq!(counts(&destroyed), (0, 0, 4));
    // A state without resources does not prevent a change of storage.
    site.keep_in(&new, false).await.unwrap();
    let audit = site.client.list(&["audit-records"], &[]).await.unwrap();
    assert!(audit.iter().any(|record| record["action"] == "runner.update"
        && record["details"].to_string().contains("migrate")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_missing_an_older_or_another_state_ends_before_its_plan() {
    let site = Site::new().await;
    assert_succeeded(&site.run(&deploying(2, 1)).await);
    let file = site.state_file(ENV).await;
    let first = fs::read(&file).unwrap();
    assert_succeeded(&site.run(&deploying(3, 2)).await);
    let good = fs::read(&file).unwrap();

    let mut other = read(&file);
    other["lineage"] = json!("11111111-2222-3333-4444-555555555555");
    other["serial"] = json!(99);
    let wrong = [
        (Some(first), "older"),
        (Some(other.to_string().into_bytes()), "lineage"),
        (None, "there is no state"),
    ];
    for (content, why) in wrong {
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let plan = DeploymentCreateBody { plan_only: Some(true), ..deploying(3, 2) };
        for body in [deploying(3, 2), plan, destruction(ENV)] {
            assert_wrong_state(&site.run(&body).await, why);
        }
    }
    // The environment is not deleted either.
    let said = site.server.canyon(&["delete", "environment", PROJECT, ENV, "--yes"]);
    said.done();
    let deletion =
        site.client.deployments(&DeploymentQuery::default(), &PageQuery::default()).await.unwrap();
    let ended = site.end(&deletion.items[0].id.to_string()).await;
    assert_wrong_state(&ended, "there is no state");
    let shown = site.shown().await;
    assert_eq!(shown["status"], "delete_failed");
    assert_eq!(shown["state"]["resources"], 3, "what is known stays known");

    // With its state restored the environment works as before.
    fs::write(&file, &good).unwrap();
    assert_eq!(counts(&site.run(&deploying(3, 2)).await), (0, 0, 0));
    assert_eq!(site.shown().await["status"], "active", "it is deployed, and not about to go");
    // Alternatively, an administrator accepts the state that is there.
    fs::remove_file(&file).unwrap();
    let accepting = DeploymentCreateBody { accept_state: true, ..deploying(1, 1) };
    let taken = site.run(&accepting).await;
    assert_succeeded(&taken);
    assert_eq!(site.shown().await["state"]["resources"], 1);
    assert_succeeded(&site.run(&deploying(1, 1)).await);
    let audit = site.client.list(&["audit-records"], &[]).await.unwrap();
    let record = audit.iter().find(|record| {
        record["action"] == "deployment.create"
            && record["subject"].as_str().unwrap().contains(&taken.id.to_string())
    });
    assert!(record.unwrap()["details"].to_string().contains("accepts any state"), "{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_link_to_a_runner_with_another_storage_moves_the_state_or_is_refused() {
    let site = Site::new().await;
    assert_succeeded(&site.run(&deploying(2, 1)).await);
    let elsewhere = site.server.path("elsewhere");
    let runner = json!({
        "id": "other",
        "runner_configuration": { "type": "local" },
        "state_storage_configuration": { "type": "local", "path": elsewhere },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "other", "project_id": PROJECT })).await;
    let refresh = ["projects", PROJECT, "envs", ENV, "actions", "refresh_runner"];
    let refused = site.client.act(&refresh, &[]).await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    assert_eq!(site.shown().await["runner_id"], RUNNER);
    let dry = site.client.act(&refresh, &[("dry_run", "true".to_owned())]).await.unwrap();
    let place = site.file_in(&elsewhere).await;
    assert_eq!(dry["moves_state_to"], place.to_str().unwrap());
    site.client.act(&refresh, &[("migrate", "true".to_owned())]).await.unwrap();
    let shown = site.shown().await;
    assert_eq!(
        (&shown["runner_id"], &shown["state"]["moves_to"]),
        (&json!("other"), &dry["moves_state_to"])
    );
    let moved = site.run(&deploying(2, 1)).await;
    assert_succeeded(&moved);
    assert_eq!(counts(&moved), (0, 0, 0));
    assert_eq!(site.shown().await["state"]["place"], place.to_str().unwrap());
}

/// A `tofu` that kills the runner, and so itself, at the `number`th call with `verb`, before or after
/// the call's work.
pub(crate) fn killing_tofu(folder: &Path, verb: &str, number: u32, after: bool) {
    fs::create_dir_all(folder).unwrap();
    let tofu = programs::given("CANYON_TEST_TOFU").display().to_string();
    let count = folder.join(format!("count-{}", verb.replace(' ', "-"))).display().to_string();
    let kill = "kill -9 $PPID; exit 1";
    let (before, after) = if after { ("", kill) } else { (kill, "") };
    programs::script(
        &folder.join("tofu"),
        &format!(
            r#"case "$*" in "{verb}"*)
    echo x >> '{count}'
    if [ "$(wc -l < '{count}')" = {number} ] && [ -e '{armed}' ]; then
        rm '{armed}'
        {before}
        '{tofu}' "$@"
        {after}
    fi ;;
esac
exec '{tofu}' "$@"
"#,
            armed = folder.join("armed").display(),
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_killed_at_any_step_is_done_by_the_next_attempt_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let steps = [
        ("state pull", 1, false),
        ("state push", 1, false),
        ("state push", 1, true),
        ("state push", 2, false),
        ("state push", 2, true),
        ("state pull", 5, false),
        ("plan", 1, false),
    ];
    killing_tofu(folder.path(), "none", 0, false);
    let path = programs::search_path(Some(folder.path()));
    let server = Server::start_with(&programs::built(), path).await;
    let site = Site::on(server, &json!({})).await;
    assert_succeeded(&site.run(&deploying(3, 1)).await);
    let lineage = site.shown().await["state"]["lineage"].clone();
    for (index, (verb, number, after)) in steps.into_iter().enumerate() {
        let step = format!("{verb} {number}, after: {after}");
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() != "tofu" {
                fs::remove_file(path).unwrap();
            }
        }
        fs::write(folder.path().join("armed"), "").unwrap();
        killing_tofu(folder.path(), verb, number, after);
        let next = site.server.path(&format!("states-{index}"));
        site.keep_in(&next, true).await.unwrap();
        let count = u32::try_from(index).unwrap() + 4;
        let moved = site.run(&deploying(count, 1)).await;
        assert!(!folder.path().join("armed").exists(), "{step}: nothing was killed");
        assert_succeeded(&moved);
        assert_eq!(moved.attempts.len(), 2, "{step}");
        assert_eq!(counts(&moved), (1, 0, 0), "{step}");
        let state = site.shown().await["state"].clone();
        assert_eq!((&state["lineage"], &state["resources"]), (&lineage, &json!(count)), "{step}");
        assert_eq!(state["place"], site.file_in(&next).await.to_str().unwrap(), "{step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_deletes_no_more_than_its_environment_and_its_request_allow() {
    let site = Site::new().await;
    assert_succeeded(&site.run(&deploying(5, 1)).await);
    let environment = ["projects", PROJECT, "envs", ENV];
    let refused = async |body: &DeploymentCreateBody, count: u32| {
        let ended = site.run(body).await;
        assert_eq!(ended.refused_deletions, Some(count), "{ended:#?}");
        assert_eq!(failure(&ended).0, FailureClass::User);
        assert_eq!(site.state(ENV).await.len(), 5, "nothing was changed");
    };
    let limited = DeploymentCreateBody { max_deletions: Some(1), ..deploying(3, 1) };
    refused(&limited, 2).await;
    // A replacement is a deletion.
    refused(&DeploymentCreateBody { max_deletions: Some(4), ..deploying(5, 2) }, 5).await;
    let protect = |most: Value| json!({ "deletion_protection": most });
    site.client.update(&environment, &protect(json!({ "max_deletions": 1 }))).await.unwrap();
    assert_eq!(site.shown().await["deletion_protection"], json!({ "max_deletions": 1 }));
    refused(&deploying(3, 1), 2).await;
    refused(&destruction(ENV), 5).await;
    // A request cannot allow more deletions than the environment.
    refused(&DeploymentCreateBody { max_deletions: Some(9), ..deploying(3, 1) }, 2).await;
    assert_succeeded(&site.run(&deploying(4, 1)).await);
    site.client.update(&environment, &protect(Value::Null)).await.unwrap();
    assert_succeeded(&site.run(&destruction(ENV)).await);
    // A new environment starts with the protection of its type.
    let kind = json!({ "id": "production", "deletion_protection": { "max_deletions": 0 } });
    site.make(&["env-types"], &kind).await;
    let made = json!({ "id": "prod", "env_type_id": "production" });
    let made = site.make(&["projects", PROJECT, "envs"], &made).await;
    assert_eq!(made["deletion_protection"], json!({ "max_deletions": 0 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leftovers_of_a_forced_deletion_are_in_the_audit() {
    let site = Site::new().await;
    assert_succeeded(&site.run(&deploying(2, 1)).await);
    let place = site.state_file(ENV).await;
    let force = [("force", "true".to_owned())];
    site.client.delete(&["projects", PROJECT, "envs", ENV], &force).await.unwrap();
    let audit = site.client.list(&["audit-records"], &[]).await.unwrap();
    let record = audit.iter().find(|record| record["action"] == "environment.delete").unwrap();
    let details = json!([
        format!("2 resources in the state at {}", place.display()),
        "terraform_data.thing[0]",
        "terraform_data.thing[1]",
    ]);
    assert_eq!(record["details"], details);
    assert_eq!(read(&place)["resources"][0]["instances"].as_array().unwrap().len(), 2);
}
