//! Jobs that a new session of an agent adopts: all of its jobs, however many, and no others.

use crate::agent_world::{far, far_away, job, open, opening, order, say, token};
use crate::harness::Api;
use canyon_domain::agent_job::{AgentJob, DesiredState, JobHolder};
use canyon_domain::ids::DeploymentId;
use canyon_domain::runner::agents::AgentTarget;
use serde_json::{Value, json};
use std::iter::repeat_n;
use std::time::Duration;
use uuid::Uuid;

/// Writes jobs as the agent that took them would have left them: one for each target, and otherwise equal to `like`.
async fn hold(
    api: &Api,
    like: &Value,
    agent: &str,
    targets: impl IntoIterator<Item = Option<AgentTarget>>,
) -> Vec<Value> {
    let like = job(api, like).await.unwrap();
    let (now, mut keys) = (api.app.now(), Vec::new());
    for (n, target) in (1_u128..).zip(targets) {
        let (agent, place) = (agent.parse().unwrap(), "engine".to_owned());
        let taken =
            Some(JobHolder { agent, session: 1, platform_id: place, at: now, reassigned: false });
        let deployment = DeploymentId(Uuid::from_u128(n));
        let held = AgentJob { deployment, holder: taken, target, ..like.clone() };
        api.app.table.create_agent_job(api.ours.uuid, &held, now).await.unwrap();
        keys.push(json!({ "runner": held.runner, "deployment": deployment, "attempt": 1 }));
    }
    keys
}

fn jobs(held: &Value) -> Vec<Value> {
    held.as_array().into_iter().flatten().map(|held| held["job"].clone()).collect()
}

#[tokio::test]
async fn an_agent_continues_more_jobs_than_fit_into_one_answer() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let (_, like) = order(&api).await;
    let keys = hold(&api, &like, "berlin", repeat_n(None, 130)).await;
    let mut body = opening("b");
    body["found"] = json!(keys);
    for _ in 0..2 {
        let opened = say(&api, &token, "berlin/sessions", body.clone()).await.1;
        assert_eq!(jobs(&opened["held"]), keys[..100], "its answer may have been lost");
        assert_eq!((&opened["held_later"], &opened["session"]), (&json!(keys[100..]), &json!(2)));
        assert_eq!(opened["strays"], Value::Null);
    }
    let poll = async || {
        let body = json!({ "running": 0, "wait_seconds": 0 });
        let work = say(&api, &token, "berlin/sessions/2/poll", body).await.1;
        jobs(&work["held"])
    };
    // With so many jobs, it is not recorded which ones the session start described, so polls describe all.
    for keys in [&keys[..100], &keys[100..]] {
        assert_eq!(poll().await, keys);
        api.clock.advance(Duration::from_secs(3));
        assert_eq!(poll().await[..keys.len()], *keys, "it has said nothing of them");
        let reports: Vec<_> = keys.iter().map(|key| json!({ "job": key })).collect();
        let reports = json!({ "reports": reports });
        let said = say(&api, &token, "berlin/sessions/2/reports", reports).await;
        assert_eq!(said, (200, json!({})));
    }
    assert_eq!(poll().await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_agent_of_the_same_platform_continues_only_the_jobs_that_it_may_launch() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let (_, like) = order(&api).await;
    let its_own = AgentTarget::Ids(vec!["berlin".parse().unwrap()]);
    let keys = hold(&api, &like, "berlin", [Some(its_own), None]).await;
    api.clock.advance(Duration::from_secs(61));
    let opened = say(&api, &token, "boston/sessions", opening("b")).await.1;
    assert_eq!(jobs(&opened["held"]), keys[1..], "{opened}");
    assert_eq!(job(&api, &keys[0]).await.unwrap().holder.unwrap().agent.as_str(), "berlin");
    let back = say(&api, &token, "berlin/sessions", opening("c")).await.1;
    assert_eq!(jobs(&back["held"]), keys[..1], "{back}");
}

#[tokio::test]
async fn an_agent_that_begins_anew_goes_on_with_what_it_took_for_a_runner_that_names_others_since()
{
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let (_, like) = order(&api).await;
    let keys = hold(&api, &like, "berlin", [None]).await;
    let others = json!({ "type": "docker-agent", "agents": { "ids": ["boston"] } });
    let changed = api.patch("/runners/far", json!({ "runner_configuration": others })).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    api.clock.advance(Duration::from_secs(6));
    for instance in ["a", "b"] {
        let opened = say(&api, &token, "berlin/sessions", opening(instance)).await.1;
        assert_eq!(jobs(&opened["held"]), keys, "{opened}");
    }
    let opened = say(&api, &token, "boston/sessions", opening("c")).await.1;
    assert_eq!(opened["held"], Value::Null, "its holder is alive");
    assert_eq!(job(&api, &keys[0]).await.unwrap().holder.unwrap().session, 1);
    let poll = json!({ "running": 1, "wait_seconds": 0 });
    let work = say(&api, &token, "berlin/sessions/2/poll", poll).await.1;
    assert_eq!(work["held"], Value::Null, "the answer to the session start has named it: {work}");
    assert_eq!(job(&api, &keys[0]).await.unwrap().holder.unwrap().session, 2);
}

#[tokio::test]
async fn an_agent_clears_away_what_it_took_before_it_went_over_to_another_runner() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let (_, like) = order(&api).await;
    let keys = hold(&api, &like, "berlin", [None]).await;
    api.make("/runners", far("near", json!({}))).await;
    let mut moved = opening("b");
    moved["runner"] = json!("near");
    let opened = say(&api, &token, "berlin/sessions", moved).await.1;
    assert_eq!((&opened["session"], &opened["held"]), (&json!(2), &Value::Null), "{opened}");

    let mut ended = job(&api, &keys[0]).await.unwrap();
    assert!(ended.raise_desired_state(DesiredState::Forget));
    ended.version += 1;
    api.app.table.save_agent_job(api.ours.uuid, &ended, api.app.now()).await.unwrap();
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let work = say(&api, &token, "berlin/sessions/2/poll", poll).await.1;
    assert_eq!(jobs(&work["held"]), keys, "it knows nothing of it: {work}");
    assert_eq!(work["wishes"], json!([{ "job": keys[0], "wish": "forget" }]));
    let done = json!({ "reports": [{ "job": keys[0], "done": "forget" }] });
    let said = say(&api, &token, "berlin/sessions/2/reports", done).await;
    assert_eq!(said, (200, json!({})));
    assert!(job(&api, &keys[0]).await.is_none());
}

#[tokio::test]
async fn jobs_that_another_agent_left_before_a_repeated_session_start_come_with_a_poll() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let (_, like) = order(&api).await;
    let keys = hold(&api, &like, "berlin", [None]).await;
    open(&api, &token, "boston", "b").await;
    api.clock.advance(Duration::from_secs(61));
    let again = say(&api, &token, "boston/sessions", opening("b")).await.1;
    assert_eq!(again["session"], json!(1));
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let work = say(&api, &token, "boston/sessions/1/poll", poll).await.1;
    assert_eq!(jobs(&work["held"]), keys, "that answer may have been lost: {work}");
}
