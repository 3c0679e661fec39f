//! Waiting requests of agents and pollers leave executions and connections for other callers.

use crate::agent_world::{Key, far, far_away, open, opening, say, token};
use crate::harness::Api;
use canyon_functions::App;
use canyon_functions::http::HttpSettings;
use canyon_store::api_rate_limit::{Decision, RateLimit};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// An API where each waiting request occupies a function.
async fn on_functions(api: &mut Api) {
    let change = |mut app: App| {
        app.changes = app.changes.sharing_waits();
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
}

/// Polls as a busy agent. Returns the answer and its delay.
fn poll(
    api: &Api,
    token: &str,
    name: &str,
    wait_seconds: u32,
) -> impl Future<Output = (Value, Duration)> + Send + 'static {
    let url = format!("{}/orgs/{}/agents/{name}/sessions/1/poll", api.url, api.ours.id);
    let body = json!({ "running": 1, "wait_seconds": wait_seconds });
    let request = api.http.post(url).bearer_auth(token).json(&body);
    let since = Instant::now();
    async move {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        (answer.json().await.unwrap(), since.elapsed())
    }
}

#[tokio::test]
async fn on_the_functions_fifty_requests_of_one_tokens_agents_wait_and_the_next_is_asked_to_pause()
{
    let mut api = far_away().await;
    on_functions(&mut api).await;
    let (many, one) = (token(&api, json!({})).await, token(&api, json!({})).await);
    // Each read of the clock advances it, so the sessions start before the first poll.
    let names: Vec<_> = (0..55).map(|number| format!("berlin-{number}")).collect();
    for name in &names {
        open(&api, &many, name, "a").await;
    }
    let mut waiting = JoinSet::new();
    for name in &names {
        waiting.spawn(poll(&api, &many, name, 25));
    }
    let (work, took) = waiting.join_next().await.unwrap().unwrap();
    assert_eq!(work, json!({ "pause_ms": 5_000 }));
    assert!(took < Duration::from_secs(20), "it did not wait: {took:?}");
    open(&api, &one, "boston", "a").await;
    let (work, took) = poll(&api, &one, "boston", 1).await;
    assert_eq!(work["pause_ms"], 0, "the agent of another token waits as ever");
    assert!(took >= Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn on_the_functions_an_agent_with_a_key_waits_by_its_own_name_or_by_the_key_of_its_runner() {
    let mut api = far_away().await;
    on_functions(&mut api).await;
    let (own, shared) = (Key::new(), Key::new());
    api.make("/runners", far("near", json!({ "key": shared.pem() }))).await;
    // One of them has used up its waits.
    let use_up = async |of: &str| {
        let allowance = RateLimit { burst: 50 * 25, interval: Duration::from_millis(20) };
        let name = format!("waits#{}#{of}", api.ours.uuid);
        let all = api.app.table.allow_units(&name, allowance, 50 * 25, api.app.now()).await;
        assert!(matches!(all.unwrap(), Decision::Allowed { .. }));
    };
    use_up("agent/berlin").await;
    use_up("runner/near").await;
    for (name, key, runner, waits) in [
        ("berlin", &own, "far", false),
        ("zurich", &own, "far", true),
        ("boston", &shared, "near", false),
        ("lisbon", &shared, "near", false),
    ] {
        let mut body = opening("a");
        (body["public_key"], body["runner"]) = (json!(key.pem()), json!(runner));
        let path = format!("{name}/sessions");
        say(&api, &key.token(&api, name), &path, body.clone()).await;
        if runner == "far" {
            assert_eq!(api.act(&format!("/agents/{name}/actions/adopt")).await.0, 200);
        }
        let opened = say(&api, &key.token(&api, name), &path, body).await;
        assert_eq!(opened.0, 201, "{}", opened.1);
        let longest = if waits { 1 } else { 25 };
        let work = poll(&api, &key.token(&api, name), name, longest).await.0;
        assert_eq!(work["pause_ms"], if waits { 0 } else { 5_000 }, "{name}");
    }
    // The pollers of the runner share the waits of its key.
    let configuration = json!({
        "type": "kubernetes-agent", "key": shared.pem(),
        "job": { "namespace": "jobs", "service_account": "canyon" },
    });
    use_up("runner/polled").await;
    for (runner, longest, later) in [("polled", 25, Some("5")), ("alone", 1, None)] {
        api.make("/runners", far(runner, configuration.clone())).await;
        let path = format!("remote-runners/{runner}/actions/poll-requests?wait_seconds={longest}");
        let url = format!("{}/orgs/{}/{path}", api.url, api.ours.id);
        let request = api.http.request(Method::POST, url);
        let answer = request.bearer_auth(shared.token(&api, runner)).send().await.unwrap();
        let header = answer.headers().get("retry-after").map(|value| value.to_str().unwrap());
        assert_eq!((answer.status().as_u16(), header), (204, later), "{runner}");
    }
}

#[tokio::test]
async fn the_agents_of_one_token_leave_connections_of_a_laptop_to_others() {
    let mut api = far_away().await;
    let change = |mut app: App| {
        app.changes = app.changes.with_max_waits(2);
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    let token = token(&api, json!({})).await;
    let mut waiting = JoinSet::new();
    for name in ["berlin", "boston"] {
        open(&api, &token, name, "a").await;
        waiting.spawn(poll(&api, &token, name, 25));
    }
    let (work, took) = waiting.join_next().await.unwrap().unwrap();
    assert_eq!(work, json!({ "pause_ms": 5_000 }));
    assert!(took < Duration::from_secs(20), "one of two waits for its full time: {took:?}");
}
