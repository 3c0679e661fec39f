//! A cancel always ends a deployment, gracefully where that is possible.

use crate::harness::deployments::{assert_succeeded, end, request};
use crate::harness::ledger;
use crate::harness::module::{self, THIRTY, inline};
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use canyon_api::deployment::Deployment;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// One resource that is complete at once, then one that takes minutes.
fn slow(site: &Site) -> canyon_domain::job::Module {
    let path = site.server.path("ledger");
    inline(format!(
        r#"
resource "terraform_data" "quick" {{
  provisioner "local-exec" {{
    command = "echo begin 1 0 >> '{path}'"
  }}
}}

resource "terraform_data" "slow" {{
  depends_on = [terraform_data.quick]
  provisioner "local-exec" {{
    command = "echo begin 1 1 >> '{path}'; exec sleep 300"
  }}
}}
"#,
        path = path.display()
    ))
}

/// Accepts [`slow`] and waits until its second resource is being created.
async fn accept_slow(site: &Site) -> String {
    let id = site.accept(&request(ENV, Some(slow(site)))).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while ledger::indexes(&site.server.path("ledger"), "begin", 1) != [0, 1] {
        assert!(Instant::now() < deadline, "it does not get there\n{}", site.server.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    id
}

#[track_caller]
fn assert_cancelled(deployment: &Deployment) {
    assert_eq!(deployment.status, "cancelled", "{deployment:#?}");
}

/// Resources that were complete before the cancel are in the state, and the lock is free.
async fn nothing_is_lost(site: &Site) {
    let state = site.state(ENV).await;
    assert!(state.contains(&"terraform_data.quick".to_owned()), "{state:?}");
    let log = site.deploy(inline(THIRTY)).await;
    assert_eq!(log.metrics.num_tf_resources, Some(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_the_queue_ends_at_once_and_delays_no_other_deployment() {
    let site = Site::new().await;
    let path = site.server.path("turns");
    let module = |round| module::ledger(&path, 1, "0.5", round);
    let mut ids = Vec::new();
    for round in 1..=4 {
        ids.push(site.accept(&request(ENV, Some(module(round)))).await);
    }
    let cancelled = site.client.cancel(&ids[1]).await.unwrap();
    assert_cancelled(&cancelled);
    assert_eq!(cancelled.attempts, []);
    for (id, expected) in ids.iter().zip(["succeeded", "cancelled", "succeeded", "succeeded"]) {
        assert_eq!(site.end(id).await.status, expected);
    }
    let rounds: Vec<_> = ledger::read(&path).into_iter().map(|entry| entry.round).collect();
    assert_eq!(rounds, [1, 1, 3, 3, 4, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_saves_its_state_and_frees_the_lock() {
    let site = Site::new().await;
    let id = accept_slow(&site).await;
    let queued = site.accept(&request(ENV, Some(inline("")))).await;
    assert!(site.client.deployment(&queued).await.unwrap().waiting.unwrap().blocked_by.is_some());
    site.client.cancel(&queued).await.unwrap();

    let first = site.client.cancel(&id).await.unwrap();
    assert_eq!(first.status, "cancelling");
    for _ in 0..3 {
        // A second cancel sends no second signal.
        site.client.cancel(&id).await.unwrap();
    }
    let ended = site.end(&id).await;
    assert_cancelled(&ended);
    let log = site.log(&id).await;
    let events = site.events(&id).await;
    let signals = events.iter().filter(|event| says(event, "nterrupt received")).count();
    assert_eq!(signals, 1, "OpenTofu got one signal: {log}");
    assert!(!events.iter().any(|event| says(event, "Two interrupts")), "{log}");

    let again = site.client.cancel(&id).await.unwrap();
    // Only its own read answers with the module and the name of its requester.
    let ended = Deployment { module: None, created_by_name: None, ..ended };
    assert_eq!(again, ended, "to cancel what was cancelled changes nothing");
    nothing_is_lost(&site).await;
    let done = site.deploy(inline(THIRTY)).await;
    let refused = site.client.cancel(&done.id.to_string()).await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
}

fn says(event: &Value, words: &str) -> bool {
    event["@message"].as_str().is_some_and(|message| message.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_survives_the_death_of_the_server() {
    for stay_away in [Duration::from_millis(10), Duration::from_secs(2)] {
        let mut site = Site::new().await;
        let id = accept_slow(&site).await;
        assert_eq!(site.client.cancel(&id).await.unwrap().status, "cancelling");
        site.server.kill();
        tokio::time::sleep(stay_away).await;
        site.server.restart().await;
        assert_cancelled(&end(&site.client, &id).await);
        nothing_is_lost(&site).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_ignores_the_request_to_stop_is_killed_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let noted = folder.path().join("ignoring-stop");
    programs::with_runner(folder.path(), &programs::ignoring_stop(&noted));
    let server = Server::start_with(folder.path(), programs::search_path(None)).await;
    let site = Site::on(server, &json!({ "timeouts": { "stop_seconds": 5 } })).await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    programs::until_ignoring_stop(&noted).await;
    let begun = Instant::now();
    site.client.cancel(&id).await.unwrap();
    assert_cancelled(&site.end(&id).await);
    let took = begun.elapsed();
    assert!((4..12).contains(&took.as_secs()), "stopped after {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opentofu_that_ignores_the_request_to_stop_is_killed_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let tofu = programs::given("CANYON_TEST_TOFU");
    let noted = folder.path().join("ignoring-stop");
    let script = format!(
        "case $1 in apply) {} ;; esac\nexec '{}' \"$@\"\n",
        programs::ignoring_stop(&noted),
        tofu.display()
    );
    programs::script(&folder.path().join("tofu"), &script);
    let path = programs::search_path(Some(folder.path()));
    let server = Server::start_with(&programs::built(), path).await;
    let site = Site::on(server, &json!({ "timeouts": { "stop_seconds": 5 } })).await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    let applies = |now: &Deployment| now.attempts.last().is_some_and(|it| it.phase == "apply");
    site.until(&id, "the apply", applies).await;
    programs::until_ignoring_stop(&noted).await;
    let begun = Instant::now();
    site.client.cancel(&id).await.unwrap();
    assert_cancelled(&site.end(&id).await);
    let took = begun.elapsed();
    assert!((2..12).contains(&took.as_secs()), "stopped after {took:?}");

    std::fs::remove_file(folder.path().join("tofu")).unwrap();
    assert_succeeded(&site.deploy(inline(THIRTY)).await);
}
