//! Deployments that choose their agent, reserved agents that launch nothing else, and jobs without a chosen agent.

use crate::agent_world::{Key, far, far_away, job, open, opening, order, say, token};
use crate::harness::{Api, faults};
use crate::job;
use reqwest::Method;
use serde_json::{Value, json};

/// A user's own machine: it shows a key as a reserved agent of the runner `far`, and is adopted.
async fn reserved(api: &Api, key: &Key, name: &str) -> u64 {
    let mut body = opening("a");
    body["reserved"] = json!(true);
    body["public_key"] = json!(key.pem());
    let path = format!("/agents/{name}/sessions");
    let open = async || api.call_as(&key.token(api, name), Method::POST, &path, Some(&body)).await;
    assert_eq!(open().await.1["state"], "pending");
    let adopt = format!("/agents/{name}/actions/adopt");
    assert_eq!(api.call_as(&api.ours.admin, Method::POST, &adopt, None).await.0, 200);
    open().await.1["session"].as_u64().unwrap()
}

async fn work(api: &Api, secret: &str, name: &str, session: u64) -> Value {
    let path = format!("/agents/{name}/sessions/{session}/poll");
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let answer = api.call_as(secret, Method::POST, &path, Some(&poll)).await;
    assert_eq!(answer.0, 200, "{}", answer.1);
    answer.1["offers"].clone()
}

#[tokio::test]
async fn a_reserved_agent_is_offered_what_names_it_and_nothing_of_others() {
    let api = far_away().await;
    let key = Key::new();
    let session = reserved(&api, &key, "cli-me").await;
    let (_, named) = order(&api).await;
    let mut stored = job(&api, &named).await.unwrap();
    assert_eq!(work(&api, &key.token(&api, "cli-me"), "cli-me", session).await, Value::Null);
    stored.only_agent = Some("cli-me".parse().unwrap());
    stored.version += 1;
    let now = canyon_domain::ports::Clock::now(&*api.clock);
    api.app.table.save_agent_job(api.ours.uuid, &stored, now).await.unwrap();
    let other = token(&api, json!({})).await;
    let theirs = open(&api, &other, "berlin", "b").await;
    assert_eq!(work(&api, &other, "berlin", theirs).await, Value::Null, "it is not for any agent");
    let offers = work(&api, &key.token(&api, "cli-me"), "cli-me", session).await;
    assert_eq!(offers, json!([named]));
}

#[tokio::test]
async fn only_an_agent_that_may_launch_it_can_be_named() {
    let api = far_away().await;
    let key = Key::new();
    reserved(&api, &key, "cli-me").await;
    let direct = json!({
        "id": "gke", "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
        "runner_configuration": {
            "type": "kubernetes",
            "cluster": {
                "cluster_data": { "server": "https://cluster.example", "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" },
                "auth": { "service_account_token": "very-secret-token" },
            },
            "job": { "namespace": "canyon", "service_account": "canyon" },
        },
    });
    for (runner, env) in [(far("near", json!({})), "near"), (direct, "gke")] {
        let made = api.call_as(&api.ours.admin, Method::POST, "/runners", Some(&runner)).await;
        assert_eq!(made.0, 201, "{}", made.1);
        api.make("/env-types", json!({ "id": env })).await;
        let rule = json!({ "runner_id": runner["id"], "project_id": "shop", "env_type_id": env });
        api.make("/runner-rules", rule).await;
        api.make("/projects/shop/envs", json!({ "id": env, "env_type_id": env })).await;
    }
    let before = api.audit().await;
    let order = |env: &str, agent: &str| {
        let mut order = job::order();
        order["env_id"] = json!(env);
        order["agent"] = json!(agent);
        order
    };
    for (env, agent, reason) in [
        ("main", "no-such-agent", "there is no agent"),
        ("main", "Not A Name", "agent id"),
        ("near", "cli-me", "may not launch"),
        ("gke", "cli-me", "Canyon itself launches them"),
    ] {
        let order = order(env, agent);
        let answer = api.post("/deployments", order).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec!["agent"]), "{}", answer.1);
        assert!(answer.1.to_string().contains(reason), "{}", answer.1);
    }
    assert_eq!(api.audit().await, before);
    let good = order("main", "cli-me");
    // An administrator's own machine does not run modules of other users.
    let other = api.call_as(&api.ours.deployer, Method::POST, "/deployments", Some(&good)).await;
    assert_eq!((other.0, faults(&other)), (400, vec!["agent"]), "{}", other.1);
    assert!(other.1.to_string().contains("there is no agent"), "{}", other.1);
    let answer = api.post("/deployments", good).await;
    assert_eq!(answer.0, 201, "{}", answer.1);
}

#[tokio::test]
async fn what_was_adopted_for_one_deployment_cannot_ask_for_more_later() {
    let api = far_away().await;
    let key = Key::new();
    reserved(&api, &key, "cli-me").await;
    let mut greedy = opening("b");
    greedy["public_key"] = json!(key.pem());
    let path = "/agents/cli-me/sessions";
    let answer = api.call_as(&key.token(&api, "cli-me"), Method::POST, path, Some(&greedy)).await;
    assert_eq!(answer.0, 409, "{}", answer.1);
    let mut aimless = opening("c");
    aimless["reserved"] = json!(true);
    aimless.as_object_mut().unwrap().remove("runner");
    let other = token(&api, json!({})).await;
    let answer = api.call_as(&other, Method::POST, "/agents/x1/sessions", Some(&aimless)).await;
    assert_eq!(faults(&answer), ["runner"]);
}

#[tokio::test]
async fn the_jobs_of_a_runner_that_names_no_agents_go_to_those_that_take_untagged_jobs() {
    let api = far_away().await;
    let (_, key) = order(&api).await;
    let offered = async |agent: &str, runner: Value, run_untagged_jobs: Value| {
        let token = token(&api, json!({})).await;
        let mut body = opening(agent);
        body["runner"] = runner;
        body["run_untagged_jobs"] = run_untagged_jobs;
        let (status, opened) = say(&api, &token, &format!("{agent}/sessions"), body).await;
        assert_eq!(status, 201, "{opened}");
        work(&api, &token, agent, opened["session"].as_u64().unwrap()).await
    };
    assert_eq!(offered("free", Value::Null, Value::Null).await, Value::Null);
    assert_eq!(offered("choosy", json!("far"), json!(false)).await, Value::Null);
    assert_eq!(offered("willing", Value::Null, json!(true)).await, json!([key]));

    let taken = async |agent: &str| {
        api.get(&format!("/agents/{agent}")).await.1["run_untagged_jobs"].clone()
    };
    assert_eq!([taken("free").await, taken("willing").await], [json!(false), json!(true)]);
    let change = Some(json!({ "run_untagged_jobs": false }));
    api.call_as(&api.ours.admin, Method::PATCH, "/agents/willing", change.as_ref()).await;
    assert_eq!(taken("willing").await, json!(false));
}

#[tokio::test]
async fn a_token_makes_no_agent_for_one_deployment() {
    let api = far_away().await;
    for more in [json!({}), json!({ "labels": { "team": "blue" } }), json!({ "runner_id": "far" })]
    {
        let token = token(&api, more).await;
        let mut body = opening("a");
        body["reserved"] = json!(true);
        let answer = say(&api, &token, "x1/sessions", body).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec!["reserved"]), "{}", answer.1);
        assert!(answer.1.to_string().contains("key of its own"), "{}", answer.1);
    }
    assert_eq!(api.get("/agents").await.1["items"], json!([]));
}
