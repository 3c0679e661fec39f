//! Which deployments of an environment count when a runner asks about a lock on its state.

use crate::harness::Api;
use crate::job::{Job, deploy, furnished, launch};
use canyon_domain::ports::Clock as _;
use reqwest::Method;
use serde_json::{Value, json};

/// A deployment that fails after its runner has claimed on a host as a user. Its job is not proved gone.
async fn failed_on(api: &Api, host: &str, user: &str) -> String {
    let id = deploy(api).await;
    let code = launch(api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "host": host, "user": user });
    let (status, claimed) = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{claimed}");
    let token = claimed["token"].as_str().unwrap().to_owned();
    let job = Job { id, number: 1, token };
    let failed = job.result(api, json!({ "status": "failure" })).await;
    assert_eq!(failed.0, 204, "{}", failed.1);
    job.id
}

/// What Canyon says to the runner of `job` about a lock of `who`.
async fn judged(api: &Api, job: &Job, who: &str) -> Value {
    let path = format!("/deployments/{}/attempts/{}/actions/judge-lock", job.id, job.number);
    let body = json!({
        "id": "lock-1", "who": who, "created": api.clock.now(), "operation": "OperationTypeApply",
    });
    let (status, answer) = api.call_as(&job.token, Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn deployments_that_wait_hide_no_attempt_that_may_have_left_the_lock() {
    let api = furnished().await;
    let id = failed_on(&api, "build-1", "canyon").await;
    let job = Job::start(&api).await;
    for _ in 0..100 {
        deploy(&api).await;
    }
    let answer = judged(&api, &job, "canyon@build-1").await;
    assert_eq!(answer["verdict"], "wait", "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains(&id), "{answer}");
}

#[tokio::test]
async fn the_lock_of_another_user_of_the_same_host_is_kept() {
    let api = furnished().await;
    let id = failed_on(&api, "build-1", "canyon").await;
    let job = Job::start(&api).await;
    let kept = judged(&api, &job, "alice@build-1").await;
    assert_eq!((&kept["verdict"], &kept["must_stay"]), (&json!("keep"), &Value::Null), "{kept}");
    let waits = judged(&api, &job, "canyon@build-1").await;
    assert_eq!(waits["verdict"], "wait", "{waits}");
    assert!(waits["reason"].as_str().unwrap().contains(&id), "{waits}");
}
