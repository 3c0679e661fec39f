//! `canyon doctor`: the configuration that it prints, the steps that it tries, and what a real job
//! shows.

use crate::harness::site::{RUNNER, Site};
use serde_json::{Value, json};

/// A cluster at an address where no server listens.
fn nowhere() -> Value {
    json!({
        "id": "nowhere",
        "runner_configuration": {
            "type": "kubernetes",
            "cluster": {
                "cluster_data": { "server": "https://127.0.0.1:1", "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" },
                "auth": { "oidc": { "audience": "canyon" } },
            },
            "job": { "namespace": "canyon", "service_account": "canyon" },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_runs_a_job_on_a_runner_that_works_and_leaves_nothing_behind() {
    let site = Site::new().await;
    let lists = async || {
        let list = async |of: &str| site.client.list(&[of], &[]).await.unwrap().len();
        (list("projects").await, list("runner-rules").await, list("env-types").await)
    };
    let before = lists().await;
    let said = site.server.canyon(&["doctor", "runner", RUNNER, "--run", "--out", "json"]);
    let found: Value = serde_json::from_str(said.done()).unwrap();
    assert_eq!(found["check"]["succeeded"], true, "{found}");
    assert_eq!(found["trust"]["documents"], json!([]));
    let steps = found["run"].as_array().unwrap();
    let steps: Vec<_> = steps
        .iter()
        .map(|step| {
            format!("{} {}", step["step"].as_str().unwrap(), step["result"].as_str().unwrap())
        })
        .collect();
    assert_eq!(steps, ["start ok", "image ok", "api ok", "state ok"], "{found}");
    assert_eq!(lists().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_cannot_work_fails_at_a_step_and_the_rest_is_skipped() {
    let site = Site::new().await;
    site.make(&["runners"], &nowhere()).await;
    let said = site.server.canyon(&["doctor", "runner", "nowhere", "--check-only"]);
    assert_eq!(said.code, 1, "{said:?}");
    let lines: Vec<_> = said.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    let failed = lines.iter().position(|line| line.starts_with("failed"));
    let failed = failed.unwrap_or_else(|| panic!("no step failed: {said:?}"));
    assert!(lines[failed + 1..].iter().all(|line| line.starts_with("skipped")), "{said:?}");
    assert!(lines.last().unwrap().contains("dry_run"), "{said:?}");
    let missing = site.server.canyon(&["doctor", "runner", "nowhare"]);
    assert_eq!(missing.code, 7, "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_configuration_names_the_runner_and_can_be_applied() {
    let site = Site::new().await;
    let made = site.make(&["runners"], &nowhere()).await;
    let said = site.server.canyon(&["doctor", "runner", "nowhere", "--print-only"]);
    let uuid = made["uuid"].as_str().unwrap();
    assert!(said.done().contains(&format!(":runner:{uuid}\"")), "{said:?}");
    assert!(said.done().contains("kind: AuthenticationConfiguration"), "{said:?}");
    assert!(!said.done().contains("skipped"), "nothing is tried: {said:?}");
}
