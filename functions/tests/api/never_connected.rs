//! What the API says of an environment whose deployments no agent could take.

use crate::agent_world::{Key, far, far_away, open, opening, say, token};
use crate::harness::Api;
use serde_json::{Value, json};

const ENVIRONMENT: &str = "/projects/shop/envs/main";
const NEVER: &str = "waiting for an agent of runner `far`: none has ever connected";

async fn reason(api: &Api) -> Value {
    let (status, read) = api.get(&format!("{ENVIRONMENT}?no_agent_reason=true")).await;
    assert_eq!(status, 200, "{read}");
    read["no_agent_reason"].clone()
}

/// An agent asks to be adopted.
async fn asks(api: &Api, name: &str, more: Value) {
    let key = Key::new();
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    for (member, value) in more.as_object().unwrap() {
        body[member] = value.clone();
    }
    let answer = say(api, &key.token(api, name), &format!("{name}/sessions"), body).await;
    assert_eq!(answer.1["state"], "pending", "{}", answer.1);
}

#[tokio::test]
async fn a_runner_to_which_no_agent_ever_connected_is_reported_to_those_who_ask() {
    let api = far_away().await;
    assert_eq!(reason(&api).await, NEVER);
    assert_eq!(api.get(ENVIRONMENT).await.1.get("no_agent_reason"), None, "nothing was asked");
    let named = json!({ "type": "docker-agent", "agents": { "ids": ["b"] } });
    let change = json!({ "runner_configuration": named });
    assert_eq!(api.patch("/runners/far", change).await.0, 200);
    assert_eq!(reason(&api).await, format!("{NEVER} that is called `b`"));
    // A user's own machine, another runner's agent and an agent of another name are none of its agents.
    asks(&api, "cli-me", json!({ "reserved": true })).await;
    api.make("/runners", far("other", json!({}))).await;
    asks(&api, "theirs", json!({ "runner": "other" })).await;
    asks(&api, "c", json!({})).await;
    assert_eq!(reason(&api).await, format!("{NEVER} that is called `b`"));
}

#[tokio::test]
async fn an_agent_that_may_take_it_one_day_counts_until_it_is_rejected() {
    let api = far_away().await;
    asks(&api, "berlin", json!({})).await;
    assert_eq!(reason(&api).await, Value::Null, "an administrator may adopt it");
    assert_eq!(api.act("/agents/berlin/actions/reject").await.0, 200);
    assert_eq!(reason(&api).await, NEVER);
    // With a token it needs no adoption. It counts after its session too.
    let secret = token(&api, json!({ "runner_id": "far" })).await;
    open(&api, &secret, "boston", "b").await;
    api.clock.advance(std::time::Duration::from_mins(10));
    assert_eq!(reason(&api).await, Value::Null, "it was connected once");
    assert_eq!(api.delete("/agents/boston").await.0, 204);
    assert_eq!(reason(&api).await, NEVER);
}

#[tokio::test]
async fn a_runner_that_waits_on_purpose_or_needs_no_agent_is_not_reported() {
    let api = far_away().await;
    assert_eq!(api.patch("/runners/far", json!({ "disabled": true })).await.0, 200);
    assert_eq!(reason(&api).await, Value::Null);
    assert_eq!(api.patch("/runners/far", json!({ "disabled": false })).await.0, 200);
    assert_eq!(reason(&api).await, NEVER);
    // A profile may select this agent, which takes no job of a runner without `agents`.
    asks(&api, "eu", json!({ "runner": null, "labels": { "region": "eu" } })).await;
    assert_eq!(reason(&api).await, NEVER);
    let by_profile = json!({ "type": "docker-agent", "profile": "of-${project.id}" });
    let change = json!({ "runner_configuration": by_profile });
    let changed = api.patch("/runners/far", change).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    assert_eq!(reason(&api).await, Value::Null);
    let own = json!({ "id": "own", "env_type_id": "dev" });
    api.make("/projects", json!({ "id": "blog" })).await;
    api.make("/projects/blog/envs", own).await;
    let (status, read) = api.get("/projects/blog/envs/own?no_agent_reason=true").await;
    assert_eq!((status, &read["runner_id"]), (200, &json!("shared")), "Canyon launches its jobs");
    assert_eq!(read.get("no_agent_reason"), None);
}

#[tokio::test]
async fn a_runner_that_keeps_states_where_its_agents_are_is_not_reported() {
    let api = far_away().await;
    let mut cluster = far("cluster", json!({}));
    let job = json!({ "namespace": "jobs", "service_account": "runner" });
    cluster["runner_configuration"] = json!({ "type": "kubernetes-agent", "job": job });
    cluster["state_storage_configuration"] = json!({ "type": "kubernetes", "namespace": "jobs" });
    api.make("/runners", cluster).await;
    api.make("/projects", json!({ "id": "blog" })).await;
    api.make("/runner-rules", json!({ "runner_id": "cluster", "project_id": "blog" })).await;
    api.make("/projects/blog/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let asked = "/projects/blog/envs/main?no_agent_reason=true";
    assert_eq!(api.get(asked).await.1.get("no_agent_reason"), None);
    let bucket = json!({ "state_storage_configuration": { "type": "s3", "bucket": "states" } });
    assert_eq!(api.patch("/runners/cluster", bucket).await.0, 200);
    assert!(api.get(asked).await.1["no_agent_reason"].is_string());
}

#[tokio::test]
async fn a_fallback_that_may_take_it_counts() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/runners", far("far", json!({}))).await;
    api.make("/runners", far("next", json!({}))).await;
    let rule = json!({ "runner_id": "far", "fallback_runner_ids": ["next"], "project_id": "shop" });
    api.make("/runner-rules", rule).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    assert_eq!(reason(&api).await, NEVER, "neither has an agent");
    asks(&api, "berlin", json!({ "runner": "next" })).await;
    assert_eq!(reason(&api).await, Value::Null);
    assert_eq!(api.delete("/agents/berlin").await.0, 204);
    assert_eq!(api.patch("/runners/next", json!({ "disabled": true })).await.0, 200);
    assert_eq!(reason(&api).await, Value::Null, "an administrator may enable it");
}
