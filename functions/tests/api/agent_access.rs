//! Who may speak as an agent, and what an agent may not do; and every word of it said again, in any order.

use crate::agent_world::{Key, far_away, job, open, opening, order, say, token};
use crate::harness::Api;
use canyon_domain::agent_job::Wish;
use canyon_domain::seam::Entropy as _;
use canyon_identity::system::System;
use reqwest::Method;
use serde_json::{Value, json};

/// What agents call, with a body that would be good.
fn agents_calls(session: u64) -> Vec<(Method, String, Option<Value>)> {
    let path = |what: &str| format!("/agents/berlin/sessions/{session}{what}");
    vec![
        (Method::POST, "/agents/berlin/sessions".to_owned(), Some(opening("a"))),
        (Method::POST, path("/poll"), Some(json!({ "running": 0, "wait_seconds": 0 }))),
        (Method::POST, path("/take"), Some(json!({ "jobs": [] }))),
        (Method::POST, path("/reports"), Some(json!({ "reports": [] }))),
        (Method::DELETE, path(""), None),
    ]
}

#[tokio::test]
async fn nobody_but_the_agent_itself_speaks_for_it() {
    let api = far_away().await;
    let own = token(&api, json!({})).await;
    let session = open(&api, &own, "berlin", "a").await;
    let other = token(&api, json!({})).await;
    open(&api, &other, "boston", "b").await;
    let key = Key::new();
    let before = api.get("/agents/berlin").await.1;
    for (method, path, body) in agents_calls(session) {
        let call =
            async |token: &str| api.call_as(token, method.clone(), &path, body.as_ref()).await.0;
        for role in [&api.ours.viewer, &api.ours.deployer, &api.ours.admin] {
            assert_eq!(call(role).await, 403, "{method} {path}");
        }
        assert_eq!(call(&api.theirs.admin).await, 404, "{method} {path}");
        assert_eq!(call(&other).await, 409, "{method} {path}: another agent of the organization");
        assert_eq!(call(&key.token(&api, "berlin")).await, 401, "{method} {path}: a key");
        assert_eq!(call("cya_nobody").await, 401, "{method} {path}");
    }
    assert_eq!(api.get("/agents/berlin").await.1, before);
    for (method, path, body) in agents_calls(session) {
        let status = api.call_as(&own, method, &path, body.as_ref()).await.0;
        assert!((200..300).contains(&status), "{path}: {status}");
    }
}

#[tokio::test]
async fn an_agent_calls_nothing_but_what_is_for_agents() {
    let api = far_away().await;
    let own = token(&api, json!({})).await;
    open(&api, &own, "berlin", "a").await;
    let calls = [
        (Method::GET, "/agents"),
        (Method::GET, "/agents/berlin"),
        (Method::PATCH, "/agents/berlin"),
        (Method::DELETE, "/agents/berlin"),
        (Method::POST, "/agents/berlin/actions/adopt"),
        (Method::POST, "/agents/berlin/actions/reject"),
        (Method::GET, "/runners"),
        (Method::GET, "/runners/far"),
        (Method::POST, "/runners/far/actions/check"),
        (Method::GET, "/tokens"),
        (Method::POST, "/tokens"),
        (Method::GET, "/deployments"),
        (Method::POST, "/deployments"),
        (Method::GET, "/projects"),
        (Method::GET, "/audit-records"),
    ];
    for (method, path) in calls {
        let body = json!({});
        let body = (method != Method::GET).then_some(&body);
        assert_eq!(api.call_as(&own, method.clone(), path, body).await.0, 403, "{method} {path}");
    }
    for role in [&api.ours.viewer, &api.ours.deployer] {
        assert_eq!(api.call_as(role, Method::GET, "/agents/berlin", None).await.0, 200);
        assert_eq!(api.call_as(role, Method::DELETE, "/agents/berlin", None).await.0, 403);
    }
}

/// What can be seen of an agent and its job from outside, but for times and counts of writes.
async fn told(api: &Api, key: &Value) -> (Value, String) {
    let mut agent = api.get("/agents/berlin").await.1;
    agent["session"]["last_seen"] = Value::Null;
    let job = job(api, key).await;
    (agent, format!("{:?}", job.map(|job| (job.taken, job.seen, job.wish, job.done))))
}

#[tokio::test]
async fn every_word_of_a_former_session_said_again_in_any_order_changes_nothing() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let (_, key) = order(&api).await;
    let first = open(&api, &token, "berlin", "a").await;
    let path = |what: &str| format!("berlin/sessions/{first}/{what}");
    let alive = json!({ "job": key, "observation": { "state": "alive" }, "handle": "one" });
    let gone = json!({ "job": key, "observation": { "state": "gone", "reason": null } });
    let words = [
        (path("poll"), json!({ "running": 3, "wait_seconds": 0, "draining": true })),
        (path("poll"), json!({ "running": 0, "wait_seconds": 0 })),
        (path("take"), json!({ "jobs": [key] })),
        (path("reports"), json!({ "reports": [alive] })),
        (path("reports"), json!({ "reports": [{ "job": key, "done": "stop" }] })),
    ];
    for (path, body) in &words {
        assert_eq!(say(&api, &token, path, body.clone()).await.0, 200, "{path}");
    }
    let second = open(&api, &token, "berlin", "b").await;
    let mut wanted = job(&api, &key).await.unwrap();
    wanted.want(Wish::Forget);
    wanted.version += 1;
    let now = api.app.now();
    api.app.table.save_agent_job(api.ours.uuid, &wanted, now).await.unwrap();
    let before = told(&api, &key).await;
    let mut late = words.to_vec();
    late.push((path("reports"), json!({ "reports": [gone] })));
    late.push((path("reports"), json!({ "reports": [{ "job": key, "done": "forget" }] })));
    for _ in 0..50 {
        let mut random = [0; 1];
        System.fill(&mut random);
        let (path, body) = &late[usize::from(random[0]) % late.len()];
        assert_eq!(say(&api, &token, path, body.clone()).await.0, 409, "{path}");
    }
    assert_eq!(told(&api, &key).await, before);
    let own = format!("berlin/sessions/{second}/reports");
    let done = json!({ "reports": [{ "job": key, "done": "forget" }] });
    assert_eq!(say(&api, &token, &own, done).await.0, 200);
    assert!(job(&api, &key).await.is_none());
}
