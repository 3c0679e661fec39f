//! Tokens: created, shown once, revoked, expired.

use crate::harness::{Api, faults, message};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_token_works_until_it_is_revoked() {
    let api = Api::start().await;
    let body = json!({ "description": "CI", "role": "deployer" });
    let made = api.make("/tokens", body).await;
    let secret = made["secret"].as_str().unwrap();
    let read = async || api.call_as(secret, Method::GET, "/runners", None).await.0;
    assert_eq!(read().await, 200);
    let (_, list) = api.get("/tokens").await;
    let listed = list["items"].as_array().unwrap().iter().find(|token| token["id"] == made["id"]);
    assert_eq!(listed.unwrap()["description"], "CI");
    assert!(!list.to_string().contains("cya_") && !list.to_string().contains("hash"));
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(api.delete(&path).await.0, 204);
    assert_eq!(read().await, 401, "at once, remembered or not");
    assert_eq!(api.delete(&path).await.0, 404);
}

#[tokio::test]
async fn a_token_runs_out() {
    let api = Api::start().await;
    let made = api.make("/tokens", json!({ "role": "viewer", "expires_in_seconds": 60 })).await;
    let secret = made["secret"].as_str().unwrap();
    let read = async || api.call_as(secret, Method::GET, "/runners", None).await.0;
    assert_eq!(read().await, 200);
    api.clock.advance(Duration::from_secs(61));
    assert_eq!(read().await, 401);
}

#[tokio::test]
async fn a_token_that_asks_for_no_life_runs_out_after_90_days_and_an_agents_never() {
    let api = Api::start().await;
    let days = async |body| {
        let made = api.make("/tokens", body).await;
        let time = |name: &str| made[name].as_str().map(|text| text.parse::<Timestamp>().unwrap());
        time("expires_at")
            .map(|end| end.duration_since(time("created_at").unwrap()).as_hours() / 24)
    };
    assert_eq!(days(json!({ "role": "viewer" })).await, Some(90));
    assert_eq!(days(json!({ "role": "viewer", "never_expires": true })).await, None);
    assert_eq!(days(json!({ "role": "agent" })).await, None);
    let both = json!({ "role": "viewer", "never_expires": true, "expires_in_seconds": 60 });
    assert_eq!(faults(&api.post("/tokens", both).await), ["never_expires"]);
}

#[tokio::test]
async fn a_token_cannot_revoke_itself() {
    let api = Api::start().await;
    let made = api.make("/tokens", json!({ "role": "admin" })).await;
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let secret = made["secret"].as_str().unwrap();
    let refused = api.call_as(secret, Method::DELETE, &path, None).await;
    assert!(refused.0 == 409 && message(&refused).contains("the one that you use"), "{refused:?}");
    assert_eq!(api.delete(&path).await.0, 204);
}

#[tokio::test]
async fn a_token_has_a_known_role_and_a_life_of_at_most_a_year() {
    let api = Api::start().await;
    let cases = [
        (json!({ "role": "owner" }), "role"),
        (json!({ "role": "viewer", "expires_in_seconds": 0 }), "expires_in_seconds"),
        (json!({ "role": "viewer", "expires_in_seconds": 31_536_001 }), "expires_in_seconds"),
        (json!({ "role": "viewer", "expires_in_seconds": -1 }), "expires_in_seconds"),
        (json!({ "role": "viewer", "description": "a\u{1b}[31m" }), "description"),
        (json!({ "role": "viewer", "description": "x".repeat(201) }), "description"),
    ];
    for (body, field) in cases {
        let refused = api.post("/tokens", body.clone()).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{body}");
    }
}

#[tokio::test]
async fn a_token_for_the_agents_of_a_runner_wants_that_runner_to_be_there() {
    let api = Api::start().await;
    let nowhere = json!({ "role": "agent", "runner_id": "nowhere" });
    assert_eq!(faults(&api.post("/tokens", nowhere).await), ["runner_id"]);
}
