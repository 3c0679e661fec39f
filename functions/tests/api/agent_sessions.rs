//! Openings of an agent's sessions: each counts once, however often it is said and however late.

use crate::agent_world::{Key, code, far, far_away, open, opening, order, say, token, view};
use crate::harness::{Answer, Api};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// As `berlin`.
async fn opens(api: &Api, token: &str, instance: &str) -> Answer {
    say(api, token, "berlin/sessions", opening(instance)).await
}

async fn polls(api: &Api, token: &str, session: u64, running: u32) -> Answer {
    let body = json!({ "running": running, "wait_seconds": 0 });
    say(api, token, &format!("berlin/sessions/{session}/poll"), body).await
}

#[tokio::test]
async fn the_opening_of_the_living_process_said_again_changes_nothing() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let session = open(&api, &token, "berlin", "a").await;
    let (_, key) = order(&api).await;
    polls(&api, &token, session, 0).await;
    let jobs = json!({ "jobs": [key] });
    say(&api, &token, &format!("berlin/sessions/{session}/take"), jobs).await;
    polls(&api, &token, session, 7).await;
    let seen = async || {
        let mut view = view(&api, "berlin").await;
        view["session"]["last_seen"] = Value::Null;
        view
    };
    let before = seen().await;
    assert_eq!(before["session"]["running"], 7);
    for _ in 0..3 {
        let mut late = opening("a");
        late["concurrency"] = json!(1);
        late["labels"] = json!({ "late": "yes" });
        let (status, opened) = say(&api, &token, "berlin/sessions", late).await;
        assert_eq!((status, &opened["session"]), (201, &json!(session)), "{opened}");
        assert_eq!(opened["held"][0]["job"], key, "its answer may have been lost");
        assert_eq!(seen().await, before);
    }
    assert_eq!(polls(&api, &token, session, 7).await.0, 200);
}

#[tokio::test]
async fn a_late_opening_of_a_former_process_is_refused_and_the_living_one_goes_on() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let former = ["a", "b", "c"];
    for instance in former {
        open(&api, &token, "berlin", instance).await;
    }
    assert_eq!(open(&api, &token, "berlin", "living").await, 4);
    let before = view(&api, "berlin").await;
    for instance in former.iter().chain(&former) {
        let late = opens(&api, &token, instance).await;
        assert_eq!(code(&late), (409, "session_superseded"), "{instance}");
        assert_eq!(view(&api, "berlin").await, before);
    }
    assert_eq!(polls(&api, &token, 4, 0).await.0, 200);

    let leave = "/agents/berlin/sessions/4";
    assert_eq!(api.call_as(&token, Method::DELETE, leave, None).await.0, 204);
    assert_eq!(code(&opens(&api, &token, "living").await), (409, "session_superseded"));
    assert_eq!(view(&api, "berlin").await["availability"], "offline", "it has left");
    assert_eq!(open(&api, &token, "berlin", "next").await, 5);
}

#[tokio::test]
async fn an_agent_as_earlier_versions_stored_it_goes_on_and_opens_the_next_session() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let session = open(&api, &token, "berlin", "b").await;
    let (org, table) = (api.ours.uuid, &api.app.table);
    let mut agent = table.agent(org, &"berlin".parse().unwrap()).await.unwrap().unwrap();
    agent.session.as_mut().unwrap().before.clear();
    agent.by_token = None;
    agent.version += 1;
    let stored = serde_json::to_value(&agent).unwrap();
    assert_eq!((&stored["session"]["before"], &stored["by_token"]), (&Value::Null, &Value::Null));
    table.save_agent(org, &agent).await.unwrap();

    assert_eq!(open(&api, &token, "berlin", "b").await, session);
    assert_eq!(open(&api, &token, "berlin", "c").await, session + 1);
    assert_eq!(code(&opens(&api, &token, "b").await), (409, "session_superseded"));
}

#[tokio::test]
async fn whoever_polls_by_the_key_of_a_runner_comes_back_after_each_agent_of_that_name() {
    let (api, key) = (Api::start().await, Key::new());
    let configuration = json!({
        "type": "kubernetes-agent", "key": key.pem(),
        "job": { "namespace": "jobs", "service_account": "canyon" },
    });
    api.make("/runners", far("far", configuration)).await;
    let polls = async || {
        let path = "/remote-runners/far/actions/poll-requests?wait_seconds=0";
        api.call_as(&key.token(&api, "far"), Method::POST, path, None).await.0
    };
    let number = async || view(&api, "far").await["session"]["number"].clone();
    for round in 0..3 {
        for _ in 0..2 {
            assert_eq!(polls().await, 204, "round {round}");
            assert_eq!(number().await, 2 * round + 1);
        }
        let mut body = opening(&format!("agent {round}"));
        body["public_key"] = json!(key.pem());
        let opened = say(&api, &key.token(&api, "far"), "far/sessions", body).await;
        assert_eq!(opened.1["session"], 2 * round + 2, "{}", opened.1);
        assert_eq!(polls().await, 409, "the agent is connected");
        api.clock.advance(Duration::from_secs(61));
    }
}
