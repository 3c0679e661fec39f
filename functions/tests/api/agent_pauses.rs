//! The pause between an agent's polls, where a waiting request occupies a function.

use crate::agent_world::{far_away, job, open, order, say, token};
use crate::harness::Api;
use canyon_domain::agent_job::TailRequest;
use canyon_domain::ports::Clock as _;
use canyon_functions::app::agent_registry::AgentRegistry;
use canyon_functions::http::HttpSettings;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(5);

/// Polls as an agent that would wait so long. Returns the answer and its delay.
async fn ask(api: &Api, token: &str, running: u32, wait_seconds: u32) -> (Value, Duration) {
    let since = Instant::now();
    let body = json!({ "running": running, "wait_seconds": wait_seconds });
    let (status, work) = say(api, token, "berlin/sessions/1/poll", body).await;
    assert_eq!(status, 200, "{work}");
    (work, since.elapsed())
}

/// A remote runner's agent at an API that lets idle agents pause, and the agent's token.
async fn with_pauses() -> (Api, String) {
    let mut api = far_away().await;
    let change = |mut app: canyon_functions::app::App| {
        app.agents = AgentRegistry::new(PAUSE);
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    let token = token(&api, json!({ "runner_id": "far" })).await;
    open(&api, &token, "berlin", "a").await;
    (api, token)
}

#[tokio::test]
async fn an_agent_waits_in_its_request_while_it_has_work_and_comes_again_when_it_has_none() {
    let (api, token) = with_pauses().await;
    let (idle, took) = ask(&api, &token, 0, 25).await;
    assert_eq!(idle, json!({ "pause_ms": 5_000 }));
    assert!(took < Duration::from_secs(15), "it did not wait: {took:?}");

    let (_, key) = order(&api).await;
    let (work, _) = ask(&api, &token, 0, 1).await;
    assert_eq!((&work["offers"], &work["pause_ms"]), (&json!([key]), &json!(0)), "{work}");
    say(&api, &token, "berlin/sessions/1/take", json!({ "jobs": [key] })).await;
    assert!(job(&api, &key).await.unwrap().holder.is_some());
    for running in [1, 0] {
        let (work, took) = ask(&api, &token, running, 1).await;
        assert_eq!(work, json!({ "pause_ms": 0 }), "{running}");
        assert!(took >= Duration::from_secs(1), "it waited for work: {took:?}");
    }
    api.clock.advance(Duration::from_mins(3));
    open(&api, &token, "berlin", "a").await;
    assert_eq!(ask(&api, &token, 0, 1).await.0["pause_ms"], 5_000, "nothing was offered of late");
}

#[tokio::test]
async fn an_idle_agent_waits_in_its_requests_once_it_is_asked_for_the_output_of_an_ended_job() {
    let (api, token) = with_pauses().await;
    let (_, key) = order(&api).await;
    ask(&api, &token, 0, 1).await;
    say(&api, &token, "berlin/sessions/1/take", json!({ "jobs": [key] })).await;
    api.clock.advance(Duration::from_mins(3));
    open(&api, &token, "berlin", "a").await;
    assert_eq!(ask(&api, &token, 0, 1).await.0["pause_ms"], 5_000, "it has been idle for minutes");

    let mut found = job(&api, &key).await.unwrap();
    found.tail = Some(TailRequest { id: 7, stream: "events".to_owned(), offset: 0, answer: None });
    found.version += 1;
    api.app.table.save_agent_job(api.ours.uuid, &found, api.clock.now()).await.unwrap();
    let (asked, _) = ask(&api, &token, 0, 1).await;
    assert_eq!((&asked["tails"][0]["id"], &asked["pause_ms"]), (&json!(7), &json!(0)), "{asked}");
    let (next, _) = ask(&api, &token, 0, 1).await;
    assert_eq!(next["pause_ms"], 0, "the next piece is asked for in a moment");
}
