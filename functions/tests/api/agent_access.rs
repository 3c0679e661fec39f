//! Which callers may act as an agent, and what an agent may not do. Each request is also repeated, in any order.

use crate::agent_world::{Key, far_away, job, open, opening, order, say, token};
use crate::harness::Api;
use canyon_domain::agent_job::DesiredState;
use canyon_domain::ports::Entropy as _;
use canyon_identity::system::System;
use reqwest::Method;
use serde_json::{Value, json};

/// A report that a job is gone, which would end the job if it were accepted.
fn gone(key: &Value) -> Value {
    let gone = json!({ "state": "gone", "reason": null });
    json!({ "reports": [{ "job": key, "observation": gone }] })
}

/// The requests of an agent, each with a valid body that would change something.
fn agents_calls(session: u64, key: &Value) -> Vec<(Method, String, Option<Value>)> {
    let path = |what: &str| format!("/agents/berlin/sessions/{session}{what}");
    vec![
        (Method::POST, "/agents/berlin/sessions".to_owned(), Some(opening("a"))),
        (Method::POST, path("/poll"), Some(json!({ "running": 0, "wait_seconds": 0 }))),
        (Method::POST, path("/take"), Some(json!({ "jobs": [key] }))),
        (Method::POST, path("/reports"), Some(gone(key))),
        (Method::DELETE, path(""), None),
    ]
}

/// An API where `berlin` has taken a job: its token, its session and the key of the job.
async fn taken_by_berlin() -> (Api, String, u64, Value) {
    let api = far_away().await;
    let own = token(&api, json!({})).await;
    let session = open(&api, &own, "berlin", "a").await;
    let (_, key) = order(&api).await;
    let path = |what: &str| format!("berlin/sessions/{session}/{what}");
    say(&api, &own, &path("poll"), json!({ "running": 0, "wait_seconds": 0 })).await;
    let taken = say(&api, &own, &path("take"), json!({ "jobs": [key] })).await.1;
    assert_eq!(taken["taken"].as_array().unwrap().len(), 1, "{taken}");
    (api, own, session, key)
}

#[tokio::test]
async fn only_the_agent_itself_may_act_as_it() {
    let (api, own, session, job_key) = taken_by_berlin().await;
    let other = token(&api, json!({})).await;
    open(&api, &other, "boston", "b").await;
    let key = Key::new();
    let before = (api.get("/agents/berlin").await.1, job(&api, &job_key).await);
    for (method, path, body) in agents_calls(session, &job_key) {
        let call =
            async |token: &str| api.call_as(token, method.clone(), &path, body.as_ref()).await.0;
        for role in [&api.ours.viewer, &api.ours.deployer, &api.ours.admin] {
            assert_eq!(call(role).await, 403, "{method} {path}");
        }
        assert_eq!(call(&api.theirs.admin).await, 404, "{method} {path}");
        assert_eq!(call(&other).await, 409, "{method} {path}: another agent of the organization");
        assert_eq!(call(&key.token(&api, "berlin")).await, 401, "{method} {path}: a key");
        assert_eq!(call("cya_missing").await, 401, "{method} {path}");
    }
    let after = (api.get("/agents/berlin").await.1, job(&api, &job_key).await);
    assert_eq!(after, before);
    for (method, path, body) in agents_calls(session, &job_key) {
        let status = api.call_as(&own, method, &path, body.as_ref()).await.0;
        assert!((200..300).contains(&status), "{path}: {status}");
    }
    let seen = format!("{:?}", job(&api, &job_key).await.unwrap().reported);
    assert!(seen.contains("Gone"), "the same words by berlin itself are believed: {seen}");
}

#[tokio::test]
async fn an_agent_of_another_organization_comes_by_no_job_of_this_one() {
    let (api, _, _, job_key) = taken_by_berlin().await;
    let before = job(&api, &job_key).await;
    let theirs = async |token: &str, path: &str, body: Value| {
        let path = format!("/orgs/their-org{path}");
        let body = body.to_string().into_bytes();
        api.send(Method::POST, &path, Some(token), Some(body)).await
    };
    let (status, made) = theirs(&api.theirs.admin, "/tokens", json!({ "role": "agent" })).await;
    assert_eq!(status, 201, "{made}");
    let token = made["secret"].as_str().unwrap();
    let mut body = opening("p");
    body["found"] = json!([job_key]);
    let (status, opened) = theirs(token, "/agents/paris/sessions", body).await;
    let told = (status, &opened["held"], &opened["strays"]);
    assert_eq!(told, (201, &Value::Null, &Value::Null), "{opened}");
    let path = |what: &str| format!("/agents/paris/sessions/{}/{what}", opened["session"]);
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    assert_eq!(theirs(token, &path("poll"), poll).await.1["offers"], Value::Null);
    let answer = theirs(token, &path("take"), json!({ "jobs": [job_key] })).await;
    assert_eq!((answer.0, &answer.1["taken"]), (200, &json!([])), "{}", answer.1);
    let reason = answer.1["refused"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("not offered to this agent"), "{}", answer.1);
    assert_eq!(theirs(token, &path("reports"), gone(&job_key)).await.0, 200);
    assert_eq!(job(&api, &job_key).await, before);
    // It has no rights in this organization under any name.
    for agent in ["berlin", "paris"] {
        let path = format!("/agents/{agent}/sessions");
        let answer = api.call_as(token, Method::POST, &path, Some(&opening("p"))).await;
        assert_eq!(answer.0, 404, "{agent}: {}", answer.1);
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

/// The visible state of an agent and its job, except times and versions.
async fn told(api: &Api, key: &Value) -> (Value, String) {
    let mut agent = api.get("/agents/berlin").await.1;
    agent["session"]["last_seen"] = Value::Null;
    let job = job(api, key).await;
    (agent, format!("{:?}", job.map(|job| (job.holder, job.reported, job.desired, job.applied))))
}

#[tokio::test]
async fn repeated_requests_of_a_former_session_change_nothing_in_any_order() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let (_, key) = order(&api).await;
    let first = open(&api, &token, "berlin", "a").await;
    let path = |what: &str| format!("berlin/sessions/{first}/{what}");
    let alive = json!({ "job": key, "observation": { "state": "alive" }, "handle": "one" });
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
    let poll = json!({ "running": 1, "wait_seconds": 0 });
    assert_eq!(say(&api, &token, &format!("berlin/sessions/{second}/poll"), poll).await.0, 200);
    let mut wanted = job(&api, &key).await.unwrap();
    wanted.raise_desired_state(DesiredState::Forget);
    wanted.version += 1;
    let now = api.app.now();
    api.app.table.save_agent_job(api.ours.uuid, &wanted, now).await.unwrap();
    let before = told(&api, &key).await;
    let mut late = words.to_vec();
    late.push((path("reports"), gone(&key)));
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
