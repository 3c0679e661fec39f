//! Session starts of an agent: each counts once, however often and late it is delivered.

use crate::agent_world::{Key, code, far, far_away, job, open, opening, order, say, token, view};
use crate::harness::{Answer, Api};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Sends as `berlin`.
async fn opens(api: &Api, token: &str, instance: &str) -> Answer {
    say(api, token, "berlin/sessions", opening(instance)).await
}

async fn polls(api: &Api, token: &str, session: u64, running: u32) -> Answer {
    let body = json!({ "running": running, "wait_seconds": 0 });
    say(api, token, &format!("berlin/sessions/{session}/poll"), body).await
}

#[tokio::test]
async fn a_repeated_session_start_of_the_running_process_changes_nothing() {
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
        let session = open(&api, &token, "berlin", instance).await;
        assert_eq!(polls(&api, &token, session, 0).await.0, 200);
    }
    assert_eq!(open(&api, &token, "berlin", "living").await, 4);
    assert_eq!(polls(&api, &token, 4, 0).await.0, 200);
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
async fn an_opening_of_a_process_that_is_dead_puts_out_no_process_that_lives() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let living = open(&api, &token, "berlin", "living").await;
    let (_, key) = order(&api).await;
    polls(&api, &token, living, 0).await;
    let jobs = json!({ "jobs": [key] });
    say(&api, &token, &format!("berlin/sessions/{living}/take"), jobs).await;
    let (before, held) = (view(&api, "berlin").await, job(&api, &key).await);

    // The network delays these requests, and delivers them after their process is dead; one of them repeatedly.
    for (round, instance) in ["dead", "dead", "another", "dead"].into_iter().enumerate() {
        let mut late = opening(instance);
        late["labels"] = json!({ "late": "yes" });
        let (status, opened) = say(&api, &token, "berlin/sessions", late).await;
        assert_eq!((status, &opened["held"][0]["job"]), (201, &key), "{round}: {opened}");
        assert_eq!(
            (view(&api, "berlin").await, job(&api, &key).await),
            (before.clone(), held.clone())
        );
    }
    assert_eq!(polls(&api, &token, living, 1).await.0, 200, "it goes on");
    // A silent agent has not closed its session, however long it is silent.
    api.clock.advance(Duration::from_mins(5));
    opens(&api, &token, "late").await;
    assert_eq!(polls(&api, &token, living, 1).await.0, 200);
    assert_eq!(view(&api, "berlin").await["session"]["number"], living);
}

#[tokio::test]
async fn the_first_request_of_a_newer_process_makes_the_jobs_its_own_and_ends_the_older_session() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let older = open(&api, &token, "berlin", "older").await;
    let (_, key) = order(&api).await;
    polls(&api, &token, older, 0).await;
    let jobs = json!({ "jobs": [key] });
    say(&api, &token, &format!("berlin/sessions/{older}/take"), jobs).await;
    let newer = open(&api, &token, "berlin", "newer").await;
    opens(&api, &token, "dead").await;
    assert_eq!(job(&api, &key).await.unwrap().holder.unwrap().session, older);

    // Whichever request comes first.
    let alive = json!({ "job": key, "observation": { "state": "alive" } });
    let path = format!("berlin/sessions/{newer}/reports");
    let said = say(&api, &token, &path, json!({ "reports": [alive] })).await;
    assert_eq!(said, (200, json!({})));
    assert_eq!(job(&api, &key).await.unwrap().holder.unwrap().session, newer);
    let refused = polls(&api, &token, older, 1).await;
    assert_eq!(code(&refused), (409, "session_superseded"));
    assert_eq!(refused.1["details"]["standby"], true);
    assert_eq!(polls(&api, &token, newer, 1).await.0, 200);
}

#[tokio::test]
async fn a_process_that_leaves_before_it_has_spoken_ends_no_other_session() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let living = open(&api, &token, "berlin", "living").await;
    polls(&api, &token, living, 0).await;
    let hasty = open(&api, &token, "berlin", "hasty").await;
    let leave = format!("/agents/berlin/sessions/{hasty}");
    assert_eq!(api.call_as(&token, Method::DELETE, &leave, None).await.0, 204);
    assert_eq!(code(&polls(&api, &token, hasty, 0).await), (409, "session_superseded"));
    assert_eq!(polls(&api, &token, living, 0).await.0, 200);
}

#[tokio::test]
async fn a_process_that_stands_by_gets_a_session_once_the_other_one_has_left_or_is_silent() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let standby = async |instance: &str| {
        let mut body = opening(instance);
        body["standby"] = json!(true);
        say(&api, &token, "berlin/sessions", body).await
    };
    assert_eq!(open(&api, &token, "berlin", "living").await, 1);
    let refused = standby("waits").await;
    assert_eq!(code(&refused), (409, "session_superseded"));
    assert_eq!(refused.1["details"]["standby"], true);
    api.clock.advance(Duration::from_secs(61));
    let (status, opened) = standby("waits").await;
    assert_eq!((status, &opened["session"]), (201, &json!(2)), "{opened}");
    // The agent was only silent, and returns first.
    assert_eq!(polls(&api, &token, 1, 0).await.0, 200);
    assert_eq!(code(&standby("waits still").await), (409, "session_superseded"));
    assert_eq!(api.call_as(&token, Method::DELETE, "/agents/berlin/sessions/1", None).await.0, 204);
    let number = standby("waits still").await.1["session"].as_u64().unwrap();
    assert_eq!(polls(&api, &token, number, 0).await.0, 200);
    assert_eq!(view(&api, "berlin").await["session"]["number"], number);
}

#[tokio::test]
async fn an_agent_as_earlier_versions_stored_it_goes_on_and_opens_the_next_session() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    open(&api, &token, "berlin", "a").await;
    let session = open(&api, &token, "berlin", "b").await;
    assert_eq!(polls(&api, &token, session, 0).await.0, 200);
    let (org, table) = (api.ours.uuid, &api.app.table);
    let mut agent = table.agent(org, &"berlin".parse().unwrap()).await.unwrap().unwrap();
    agent.session.as_mut().unwrap().earlier_instances.clear();
    agent.by_token = None;
    agent.version += 1;
    let stored = serde_json::to_value(&agent).unwrap();
    assert_eq!((&stored["session"]["before"], &stored["by_token"]), (&Value::Null, &Value::Null));
    table.save_agent(org, &agent).await.unwrap();

    assert_eq!(open(&api, &token, "berlin", "b").await, session);
    assert_eq!(open(&api, &token, "berlin", "c").await, session + 1);
    assert_eq!(polls(&api, &token, session + 1, 0).await.0, 200);
    assert_eq!(code(&opens(&api, &token, "b").await), (409, "session_superseded"));
}

#[tokio::test]
async fn a_poller_with_the_key_of_a_runner_returns_after_each_agent_of_that_name() {
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
        let path = format!("far/sessions/{}/poll", 2 * round + 2);
        let body = json!({ "running": 0, "wait_seconds": 0 });
        assert_eq!(say(&api, &key.token(&api, "far"), &path, body).await.0, 200);
        assert_eq!(polls().await, 409, "the agent is connected");
        api.clock.advance(Duration::from_secs(61));
    }
}
