//! What an agent's key allows and for how long, and the settings that users make for its agent.

use crate::agent_world::{Key, claims, code, far_away, job, opening, order, say, token, view};
use crate::harness::{Answer, Api};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than the API caches a runner.
const REMEMBERED: Duration = Duration::from_secs(6);

async fn give_runner(api: &Api, key: &Key) {
    let configuration = json!({ "type": "docker-agent", "key": key.pem() });
    let body = json!({ "runner_configuration": configuration });
    let (status, answer) = api.patch("/runners/far", body).await;
    assert_eq!(status, 200, "{answer}");
    api.clock.advance(REMEMBERED);
}

/// Starts a session as `berlin` with a key.
async fn show(api: &Api, key: &Key, instance: &str) -> Answer {
    let mut body = opening(instance);
    body["public_key"] = json!(key.pem());
    say(api, &key.token(api, "berlin"), "berlin/sessions", body).await
}

#[tokio::test]
async fn a_key_that_is_replaced_in_its_runner_opens_nothing_and_its_agent_goes_on_with_the_new_one()
{
    let api = far_away().await;
    let (former, new) = (Key::new(), Key::new());
    give_runner(&api, &former).await;
    assert_eq!(show(&api, &former, "a").await.0, 201, "the runner's key enrolls it");
    let (_, key) = order(&api).await;
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let former_says = async |what: &str, body: &Value| {
        let path = format!("berlin/sessions/1/{what}");
        say(&api, &former.token(&api, "berlin"), &path, body.clone()).await
    };
    assert_eq!(former_says("poll", &poll).await.1["offers"], json!([key]));
    assert_eq!(former_says("take", &json!({ "jobs": [key] })).await.0, 200);

    give_runner(&api, &new).await;
    let before = job(&api, &key).await;
    let gone = json!({ "reports": [{ "job": key, "observation": { "state": "gone" } }] });
    for (what, body) in [("poll", &poll), ("take", &json!({ "jobs": [key] })), ("reports", &gone)] {
        assert_eq!(code(&former_says(what, body).await), (403, "rejected"), "{what}");
    }
    assert_eq!(code(&show(&api, &former, "b").await), (403, "rejected"));
    assert_eq!(job(&api, &key).await, before);

    let (status, opened) = show(&api, &new, "c").await;
    assert_eq!((status, &opened["session"]), (201, &json!(2)), "{opened}");
    assert_eq!(opened["held"][0]["job"], key, "its job stays its own");
    assert_eq!(view(&api, "berlin").await["fingerprint"], new.fingerprint());
    assert_eq!(show(&api, &former, "d").await.1["state"], "pending");
    assert_eq!(
        view(&api, "berlin").await["fingerprint"],
        new.fingerprint(),
        "it stays the new one's"
    );
}

#[tokio::test]
async fn an_agent_that_an_admin_has_adopted_needs_no_key_of_its_runner() {
    let api = far_away().await;
    let (own, other) = (Key::new(), Key::new());
    assert_eq!(show(&api, &own, "a").await.1["state"], "pending");
    api.act("/agents/berlin/actions/adopt").await;
    give_runner(&api, &other).await;
    assert_eq!(show(&api, &own, "a").await.0, 201);
}

#[tokio::test]
async fn an_agent_is_adopted_with_the_key_that_was_compared_and_no_other() {
    let api = far_away().await;
    let (own, other) = (Key::new(), Key::new());
    show(&api, &own, "a").await;
    let adopt = async |key: &Key| {
        api.act(&format!("/agents/berlin/actions/adopt?fingerprint={}", key.fingerprint())).await
    };
    assert_eq!(code(&adopt(&other).await), (409, "another_key"));
    assert_eq!(view(&api, "berlin").await["state"], "pending");
    assert_eq!(adopt(&own).await.1["state"], "adopted");
}

#[tokio::test]
async fn the_settings_of_an_admin_for_an_agent_hold_through_its_next_session() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let mut body = opening("a");
    body["labels"] = json!({ "stage": "production" });
    let path = "berlin/sessions";
    assert_eq!(say(&api, &token, path, body.clone()).await.0, 201);
    assert_eq!(view(&api, "berlin").await["labels"], body["labels"]);
    api.patch("/agents/berlin", json!({ "labels": { "stage": "none" } })).await;
    body["instance"] = json!("b");
    let (_, opened) = say(&api, &token, path, body).await;
    assert_eq!(view(&api, "berlin").await["labels"], json!({ "stage": "none" }));
    assert!(opened["warnings"][0].as_str().unwrap().contains("`labels`"), "{opened}");
}

#[tokio::test]
async fn a_request_that_waits_may_outlive_the_minute_of_its_token() {
    let api = far_away().await;
    let key = Key::new();
    give_runner(&api, &key).await;
    assert_eq!(show(&api, &key, "a").await.0, 201);
    let token = key.token(&api, "berlin");
    let body = json!({ "running": 0, "wait_seconds": 5 });
    let waits = api.call_as(&token, Method::POST, "/agents/berlin/sessions/1/poll", Some(&body));
    let passes = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        api.clock.advance(Duration::from_mins(3));
    };
    let (answer, ()) = tokio::join!(waits, passes);
    assert_eq!(answer.0, 200, "{}", answer.1);
    let late =
        api.call_as(&token, Method::POST, "/agents/berlin/sessions/1/poll", Some(&body)).await;
    assert_eq!(code(&late), (401, "clock"));
}

#[tokio::test]
async fn the_holder_of_the_key_learns_which_claim_is_wrong_and_no_other_caller_does() {
    let api = far_away().await;
    let (own, other) = (Key::new(), Key::new());
    assert_eq!(show(&api, &own, "a").await.0, 202);
    api.act("/agents/berlin/actions/adopt").await;
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    for (name, wrong, right) in
        [("sub", "boston", "berlin"), ("aud", "canyon:their-org", "canyon:our-org")]
    {
        let mut claims = claims(&api, "berlin");
        claims[name] = json!(wrong);
        let told = async |key: &Key| {
            let token = key.signed(&own.header(), &claims);
            let (status, body) = say(&api, &token, "berlin/sessions/1/poll", poll.clone()).await;
            assert_eq!(status, 401, "{body}");
            body["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(told(&own).await, format!("the token's claim `{name}` must be `{right}`"));
        let stranger = told(&other).await;
        assert!(stranger.starts_with("this needs a valid token"), "{stranger}");
    }
}

#[tokio::test]
async fn the_requests_of_a_session_show_an_agent_that_it_is_adopted_and_no_other_caller_that_it_is_pending()
 {
    let api = far_away().await;
    let key = Key::new();
    assert_eq!(show(&api, &key, "a").await.0, 202);
    let poll = async || {
        let body = json!({ "running": 0, "wait_seconds": 0 });
        say(&api, &key.token(&api, "berlin"), "berlin/sessions/0/poll", body).await
    };
    assert_eq!(code(&poll().await), (401, ""));
    api.act("/agents/berlin/actions/adopt").await;
    assert_eq!(code(&poll().await), (409, "session_superseded"));
}
