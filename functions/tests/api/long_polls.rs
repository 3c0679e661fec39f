//! Waiting requests: many of them cost the table little, and those of one caller leave room for others.

use crate::harness::Api;
use crate::job::{deploy, furnished};
use canyon_functions::http::HttpSettings;
use canyon_store::meter::Meter;
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Waits for the end of a deployment as a viewer. Returns the status, and whether it took a second or more.
async fn waits(http: reqwest::Client, url: String, token: String) -> (u16, Duration) {
    let since = Instant::now();
    let answer = http.get(url).bearer_auth(token).send().await.unwrap();
    (answer.status().as_u16(), since.elapsed())
}

fn wait_for(api: &Api, id: &str) -> impl Future<Output = (u16, Duration)> + Send + 'static {
    let path = format!("deployments/{id}/actions/wait-for-complete?timeout_in_seconds=25");
    let url = format!("{}/orgs/{}/{path}", api.url, api.ours.id);
    waits(api.http.clone(), url, api.ours.viewer.clone())
}

/// As on a laptop, where each write is announced.
async fn told_by_name(api: &mut Api, most_waits: usize) -> Meter {
    let meter = Meter::default();
    let change = |mut app: canyon_functions::App| {
        app.table = meter.watch(&app.table);
        app.changes = app.changes.with_deployment_events().with_max_waits(most_waits);
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    meter
}

#[tokio::test]
async fn what_is_written_of_other_things_wakes_no_waiting_request_and_the_end_wakes_all_with_one_read()
 {
    let mut api = furnished().await;
    let meter = told_by_name(&mut api, 1_000).await;
    let id = deploy(&api).await;
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        waiting.spawn(wait_for(&api, &id));
    }
    for number in 0..40 {
        api.make("/env-types", json!({ "id": format!("type-{number}") })).await;
    }
    let reads = meter.take().0.get("GetItem").map_or(0, |usage| usage.requests);
    assert!(reads < 400, "{reads} reads, of which few are of the deployment");
    assert!(waiting.try_join_next().is_none(), "none is answered before its end");
    let since = Instant::now();
    assert_eq!(api.act(&format!("/deployments/{id}/actions/cancel")).await.0, 202);
    for answer in waiting.join_all().await {
        assert_eq!(answer.0, 200);
    }
    let took = since.elapsed();
    assert!(
        took < Duration::from_secs(8),
        "they were woken, and did not look by their clock: {took:?}"
    );
    let reads = meter.take().0.get("GetItem").map_or(0, |usage| usage.requests);
    assert!(reads < 40, "{reads} reads for a hundred that were woken");
}

#[tokio::test]
async fn a_caller_with_too_many_waiting_requests_is_answered_early_and_another_waits_as_ever() {
    let mut api = furnished().await;
    told_by_name(&mut api, 4).await;
    let id = deploy(&api).await;
    let mut waiting = JoinSet::new();
    for _ in 0..5 {
        waiting.spawn(wait_for(&api, &id));
    }
    for _ in 0..3 {
        let (status, took) = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(status, 408, "it may ask again");
        assert!(took < Duration::from_secs(20), "two of five wait for their full time: {took:?}");
    }
    let path = format!("/deployments/{id}/actions/wait-for-complete?timeout_in_seconds=25");
    let deployer = api.ours.deployer.clone();
    let other = api.call_as(&deployer, Method::GET, &path, None);
    let (other, cancelled) = tokio::join!(other, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        api.act(&format!("/deployments/{id}/actions/cancel")).await.0
    });
    assert_eq!((other.0, cancelled), (200, 202));
    for answer in waiting.join_all().await {
        assert_eq!(answer.0, 200, "these have waited for it");
    }
}

#[tokio::test]
async fn a_request_waits_no_longer_than_its_token_is_good_and_is_answered_as_at_the_end_of_any_wait()
 {
    let api = furnished().await;
    let id = deploy(&api).await;
    let (status, check) = api.act("/runners/shared/actions/check").await;
    assert_eq!(status, 202, "{check}");
    let body = json!({ "role": "viewer", "expires_in_seconds": 4 });
    let token = api.make("/tokens", body).await["secret"].as_str().unwrap().to_owned();
    api.run_clock();
    let mut waiting = JoinSet::new();
    for (path, expected) in [
        (format!("deployments/{id}/actions/wait-for-complete?timeout_in_seconds=25"), 408),
        (format!("deployments/{id}/logs?stream=log&offset=0&wait_seconds=25"), 200),
        (format!("runners/shared/checks/{}?wait_seconds=25", check["id"].as_str().unwrap()), 200),
    ] {
        let url = format!("{}/orgs/{}/{path}", api.url, api.ours.id);
        let answer = waits(api.http.clone(), url, token.clone());
        waiting.spawn(async move { (path, expected, answer.await) });
    }
    for (path, expected, (status, took)) in waiting.join_all().await {
        assert_eq!(status, expected, "{path}");
        assert!(took < Duration::from_secs(20), "{path} took {took:?}");
    }
}

#[tokio::test]
async fn on_the_functions_one_callers_waits_leave_executions_for_everyone_else() {
    let mut api = furnished().await;
    let change = |mut app: canyon_functions::App| {
        app.changes = app.changes.sharing_waits();
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    let id = deploy(&api).await;
    let mut waiting = JoinSet::new();
    for _ in 0..60 {
        waiting.spawn(wait_for(&api, &id));
    }
    let mut early = 0;
    while let Ok(answer) = tokio::time::timeout(Duration::from_secs(5), waiting.join_next()).await {
        let (status, took) = answer.unwrap().unwrap();
        assert!(status == 408 && took < Duration::from_secs(20), "{status} after {took:?}");
        early += 1;
    }
    assert_eq!(early, 10, "50 of 60 wait");
    let deployer = api.ours.deployer.clone();
    let path = format!("/deployments/{id}/actions/wait-for-complete?timeout_in_seconds=25");
    let other = api.call_as(&deployer, Method::GET, &path, None);
    let (other, cancelled) = tokio::join!(other, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        api.act(&format!("/deployments/{id}/actions/cancel")).await.0
    });
    assert_eq!((other.0, cancelled), (200, 202), "another caller waits as ever");
    assert!(waiting.join_all().await.iter().all(|(status, _)| *status == 200));

    // After some time it may wait again.
    api.clock.advance(Duration::from_secs(25));
    let id = deploy(&api).await;
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        waiting.spawn(wait_for(&api, &id));
    }
    let none = tokio::time::timeout(Duration::from_secs(2), waiting.join_next()).await;
    assert!(none.is_err(), "each of them waits: {none:?}");
}
