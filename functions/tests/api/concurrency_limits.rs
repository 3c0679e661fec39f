//! Limits on how many jobs run at once.

use crate::harness::{Api, faults, local_runner};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn a_limit_is_set_changed_listed_and_taken_away() {
    let api = Api::start().await;
    api.make("/runners", local_runner("laptop")).await;
    let admin = &api.ours.admin;
    for (scope, max) in [("organization", 9), ("runner:laptop", 2), ("project:payments%2Feu", 1)] {
        let path = format!("/concurrency-limits/{scope}");
        for max_jobs in [max, max + 1] {
            let body = json!({ "max_jobs": max_jobs });
            let (status, set) = api.call_as(admin, Method::PUT, &path, Some(&body)).await;
            assert_eq!((status, &set["max_jobs"]), (200, &json!(max_jobs)), "{set}");
            assert_eq!(set["held_by"], json!([]));
            assert_eq!(api.get(&path).await, (200, set));
        }
    }
    let (_, all) = api.get("/concurrency-limits").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 3, "{all}");
    assert_eq!(api.delete("/concurrency-limits/organization").await.0, 204);
    assert_eq!(api.delete("/concurrency-limits/organization").await.0, 404);
    assert_eq!(api.get("/concurrency-limits/organization").await.0, 404);
}

#[tokio::test]
async fn a_limit_of_nothing_or_on_nothing_is_refused() {
    let api = Api::start().await;
    let admin = &api.ours.admin;
    let put = async |path: &str, max_jobs: i64| {
        let body = json!({ "max_jobs": max_jobs });
        api.call_as(admin, Method::PUT, path, Some(&body)).await
    };
    for max_jobs in [0, 1001] {
        let answer = put("/concurrency-limits/organization", max_jobs).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec!["max_jobs"]));
    }
    for scope in ["runner:none", "nothing", "project:..", "env:dev"] {
        let answer = put(&format!("/concurrency-limits/{scope}"), 1).await;
        assert_eq!(answer.0, 404, "{scope} {answer:?}");
    }
    let body = json!({ "max_jobs": 1 });
    for token in [&api.ours.viewer, &api.ours.deployer] {
        let path = "/concurrency-limits/organization";
        assert_eq!(api.call_as(token, Method::PUT, path, Some(&body)).await.0, 403);
        assert_eq!(api.call_as(token, Method::DELETE, path, None).await.0, 403);
    }
}
