//! Agents whose token is for labels alone: they cannot become an agent that a runner selects by its id.

use crate::agent_world::{Key, code, far, far_away, job, open, opening, order, say, token, view};
use crate::harness::{Answer, Api, message};
use crate::job::lose;
use canyon_domain::agent::{Agent, TokenScope};
use canyon_domain::agent_job::DesiredState;
use canyon_domain::attempt::Salvage;
use canyon_domain::ports::Clock as _;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The runner `far` selects only these agents.
async fn reserve(api: &Api, names: &[&str]) {
    configure(api, json!({ "type": "docker-agent", "agents": { "ids": names } })).await;
}

/// Changes the runner `far`.
async fn configure(api: &Api, configuration: Value) {
    let patch = json!({ "runner_configuration": configuration });
    let (status, body) = api.patch("/runners/far", patch).await;
    assert_eq!(status, 200, "{body}");
    // Longer than the API caches a runner.
    api.clock.advance(Duration::from_secs(6));
}

/// A token with labels and without a runner.
async fn for_labels(api: &Api) -> String {
    token(api, json!({ "labels": { "team": "blue" } })).await
}

/// The body that starts a session of an agent without a runner.
fn of_none(instance: &str) -> Value {
    let mut body = opening(instance);
    body["runner"] = Value::Null;
    body
}

async fn opens(api: &Api, secret: &str, name: &str, instance: &str) -> Answer {
    say(api, secret, &format!("{name}/sessions"), of_none(instance)).await
}

/// The offers to the first session of an agent.
async fn offers(api: &Api, secret: &str, name: &str) -> Value {
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let (status, work) = say(api, secret, &format!("{name}/sessions/1/poll"), poll).await;
    assert_eq!(status, 200, "{work}");
    work["offers"].clone()
}

async fn stored(api: &Api, name: &str) -> Agent {
    api.app.table.agent(api.ours.uuid, &name.parse().unwrap()).await.unwrap().unwrap()
}

/// Asks to be adopted, with a key.
async fn asks(api: &Api, name: &str) {
    let key = Key::new();
    let mut body = opening("real");
    body["public_key"] = json!(key.pem());
    let asked = say(api, &key.token(api, name), &format!("{name}/sessions"), body).await;
    assert_eq!(asked.0, 202, "{}", asked.1);
}

#[tokio::test]
async fn a_runner_that_names_its_agents_by_id_takes_none_by_a_token_for_labels_unless_adopted() {
    let api = far_away().await;
    let token = for_labels(&api).await;
    // In a session without a runner, and in one of the same runner.
    assert_eq!(opens(&api, &token, "berlin", "a").await.0, 201);
    assert_eq!(view(&api, "berlin").await["confined_to_labels"], true);
    reserve(&api, &["berlin"]).await;
    let (_, job) = order(&api).await;
    assert_eq!(offers(&api, &token, "berlin").await, Value::Null);
    let take = json!({ "jobs": [job] });
    let (_, answer) = say(&api, &token, "berlin/sessions/1/take", take).await;
    assert_eq!((&answer["taken"], &answer["refused"][0]["job"]), (&json!([]), &job), "{answer}");

    assert_eq!(api.act("/agents/berlin/actions/adopt").await.0, 200);
    assert_eq!(view(&api, "berlin").await["confined_to_labels"], Value::Null);
    assert_eq!(offers(&api, &token, "berlin").await, json!([job]));
}

#[tokio::test]
async fn a_token_for_labels_waits_for_an_administrator_under_a_name_that_a_runner_names() {
    let api = far_away().await;
    reserve(&api, &["berlin"]).await;
    let token = for_labels(&api).await;
    let (_, job) = order(&api).await;
    for instance in ["a", "b"] {
        let (status, answer) = opens(&api, &token, "berlin", instance).await;
        assert_eq!((status, &answer["state"]), (202, &json!("pending")), "{answer}");
        let warnings = answer["warnings"].to_string();
        assert!(
            warnings.contains("`far`") && warnings.contains("canyon adopt agent berlin"),
            "{warnings}"
        );
    }
    let other = for_labels(&api).await;
    assert_eq!(code(&opens(&api, &other, "berlin", "c").await), (409, "another_agent"));
    assert_eq!(opens(&api, &other, "boston", "c").await.0, 201, "another name is free");

    assert_eq!(api.act("/agents/berlin/actions/adopt").await.0, 200);
    assert_eq!(opens(&api, &token, "berlin", "b").await.0, 201);
    let seen = view(&api, "berlin").await;
    assert_eq!((&seen["labels"], &seen["state"]), (&json!({ "team": "blue" }), &json!("adopted")));
    assert_eq!(offers(&api, &token, "berlin").await, json!([job]));
}

#[tokio::test]
async fn a_token_for_labels_takes_no_name_from_an_agent_that_waits_to_be_adopted() {
    let api = far_away().await;
    let (labels, free) = (for_labels(&api).await, token(&api, json!({})).await);
    for name in ["berlin", "boston"] {
        asks(&api, name).await;
    }
    reserve(&api, &["berlin"]).await;
    for name in ["berlin", "boston"] {
        let refused = opens(&api, &labels, name, "a").await;
        assert_eq!(code(&refused), (409, "another_agent"), "{name}");
        assert_eq!(view(&api, name).await["state"], "pending", "{name}");
    }
    // A token without labels also authenticates the name.
    assert_eq!(open(&api, &free, "boston", "a").await, 1);
}

#[tokio::test]
async fn an_agent_by_a_token_for_labels_that_an_earlier_version_stored_is_confined_too() {
    let api = far_away().await;
    let (labels, free) = (for_labels(&api).await, token(&api, json!({})).await);
    let unrecorded = || Some(TokenScope { runner: None, labels_alone: None });
    let all = [
        ("berlin-1", &labels, None),
        ("berlin-2", &labels, unrecorded()),
        ("boston-1", &free, None),
        ("boston-2", &free, unrecorded()),
    ];
    for (name, secret, by_token) in all.clone() {
        let mut body = of_none("a");
        body["labels"] = json!({ "team": "blue" });
        body["run_untagged_jobs"] = json!(false);
        let opened = say(&api, secret, &format!("{name}/sessions"), body).await;
        assert_eq!(opened.0, 201, "{}", opened.1);
        let mut agent = stored(&api, name).await;
        agent.by_token = by_token;
        agent.version += 1;
        api.app.table.save_agent(api.ours.uuid, &agent).await.unwrap();
    }
    reserve(&api, &all.clone().map(|(name, ..)| name)).await;
    let (_, job) = order(&api).await;
    for (name, secret, _) in all {
        let is_free = name.starts_with("boston");
        let wanted = if is_free { json!([job]) } else { Value::Null };
        assert_eq!(offers(&api, secret, name).await, wanted, "{name}");
        let scope = stored(&api, name).await.by_token.unwrap();
        assert_eq!(scope.labels_alone, Some(!is_free), "{name}");
        // Its offer goes to the next agent.
        assert_eq!(api.delete(&format!("/agents/{name}")).await.0, 204);
    }
}

#[tokio::test]
async fn a_token_for_labels_goes_on_as_no_agent_that_is_more_than_its_labels() {
    let api = far_away().await;
    for (name, labels) in [("berlin", json!({})), ("boston", json!({ "team": "blue" }))] {
        let former = api.make("/tokens", json!({ "role": "agent", "labels": labels })).await;
        let mut body = of_none("a");
        body["labels"] = json!({ "team": "blue" });
        let secret = former["secret"].as_str().unwrap();
        let opened = say(&api, secret, &format!("{name}/sessions"), body).await;
        assert_eq!(opened.0, 201, "{}", opened.1);
        if name == "boston" {
            assert_eq!(api.act("/agents/boston/actions/adopt").await.0, 200);
        }
        let id = former["id"].as_str().unwrap();
        assert_eq!(api.delete(&format!("/tokens/{id}")).await.0, 204);
        let new = for_labels(&api).await;
        let refused = opens(&api, &new, name, "b").await;
        assert_eq!(code(&refused), (409, "another_agent"), "{name}");
        let free = token(&api, json!({})).await;
        assert_eq!(opens(&api, &free, name, "b").await.0, 201, "{name}: it is for all");
    }
}

/// Opens as `name` with the key of the runner `far`.
async fn opens_by_key(api: &Api, key: &Key, name: &str) -> Answer {
    let mut body = opening("keyed");
    body["public_key"] = json!(key.pem());
    say(api, &key.token(api, name), &format!("{name}/sessions"), body).await
}

#[tokio::test]
async fn a_connected_agent_with_a_token_for_labels_is_replaced_by_one_with_a_stronger_proof() {
    let (api, key) = (far_away().await, Key::new());
    let labels = for_labels(&api).await;
    for name in ["berlin", "boston"] {
        assert_eq!(opens(&api, &labels, name, "a").await.0, 201);
    }
    let by_key = |ids: &[&str]| json!({ "type": "docker-agent", "key": key.pem(), "agents": { "ids": ids } });
    configure(&api, by_key(&["another"])).await;
    let refused = opens_by_key(&api, &key, "berlin").await;
    assert_eq!(code(&refused), (409, "another_agent"), "a name is no more the key's than theirs");
    assert_eq!(view(&api, "berlin").await["state"], "adopted");
    configure(&api, by_key(&["berlin", "boston"])).await;
    // The programs that poll for the runner have its id as their name.
    let (status, answer) = opens(&api, &labels, "far", "b").await;
    assert_eq!((status, &answer["state"]), (202, &json!("pending")), "{answer}");

    assert_eq!(opens_by_key(&api, &key, "berlin").await.0, 201);
    assert_eq!(view(&api, "berlin").await["fingerprint"], key.fingerprint());
    let free = token(&api, json!({})).await;
    assert_eq!(open(&api, &free, "boston", "b").await, 1);
    for name in ["berlin", "boston"] {
        let poll = json!({ "running": 0, "wait_seconds": 0 });
        let former = say(&api, &labels, &format!("{name}/sessions/1/poll"), poll).await;
        assert_eq!(code(&former), (409, "another_agent"), "{name}");
        assert_eq!(code(&opens(&api, &labels, name, "c").await), (409, "another_agent"), "{name}");
    }
}

#[tokio::test]
async fn an_agent_by_a_token_for_labels_that_holds_a_job_keeps_its_name_until_the_job_has_ended() {
    let (api, key) = (far_away().await, Key::new());
    let labels = for_labels(&api).await;
    let agents = json!({ "labels": { "team": "blue" } });
    configure(&api, json!({ "type": "docker-agent", "key": key.pem(), "agents": agents })).await;
    assert_eq!(opens(&api, &labels, "berlin", "a").await.0, 201);
    let (_, job_key) = order(&api).await;
    assert_eq!(offers(&api, &labels, "berlin").await, json!([job_key]));
    let take = json!({ "jobs": [job_key] });
    let taken = say(&api, &labels, "berlin/sessions/1/take", take).await;
    assert_eq!(taken.1["taken"][0]["job"], job_key, "{}", taken.1);

    let free = token(&api, json!({})).await;
    let agents = json!({ "ids": ["berlin"] });
    configure(&api, json!({ "type": "docker-agent", "key": key.pem(), "agents": agents })).await;
    // Connected, and silent for long.
    for pause in [6, 600] {
        api.clock.advance(Duration::from_secs(pause));
        let by_key = opens_by_key(&api, &key, "berlin").await;
        for refused in [by_key, opens(&api, &free, "berlin", "b").await] {
            assert_eq!(code(&refused), (409, "contended"), "after {pause} s: it asks again");
            let told = message(&refused);
            assert!(told.contains("holds a job") && told.contains("canyon forget"), "{told}");
        }
    }
    // The attempt has ended, and the agent is to send what its job left.
    let id = job_key["deployment"].as_str().unwrap();
    lose(&api, id).await;
    let mut ended = crate::job::stored(&api, id).await;
    ended.set_salvage(1, Salvage::Pending, api.clock.now());
    ended.version += 1;
    let saved = api.app.table.save_deployment(api.ours.uuid, &ended, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    offers(&api, &labels, "berlin").await;
    assert_eq!(code(&opens_by_key(&api, &key, "berlin").await), (409, "contended"));
    // Its machine is lost.
    api.clock.advance(Duration::from_mins(2));
    assert_ne!(job(&api, &job_key).await.unwrap().desired, DesiredState::Forget);
    assert_eq!(opens_by_key(&api, &key, "berlin").await.0, 201);
}

#[tokio::test]
async fn the_programs_that_poll_for_a_runner_take_its_name_from_a_token_for_labels() {
    let (api, key) = (far_away().await, Key::new());
    let labels = for_labels(&api).await;
    // Before there is such a runner, its name is like any other.
    assert_eq!(opens(&api, &labels, "polled", "a").await.0, 201);
    let job = json!({ "namespace": "jobs", "service_account": "canyon" });
    let configuration = json!({ "type": "kubernetes-agent", "key": key.pem(), "job": job });
    api.make("/runners", far("polled", configuration)).await;
    // Canyon has read the runners a moment before.
    api.clock.advance(Duration::from_secs(6));
    let path = "/remote-runners/polled/actions/poll-requests?wait_seconds=0";
    for _ in 0..2 {
        let polled = api.call_as(&key.token(&api, "polled"), Method::POST, path, None).await;
        assert_eq!(polled, (204, Value::Null));
    }
    assert_eq!(code(&opens(&api, &labels, "polled", "b").await), (409, "another_agent"));
}

#[tokio::test]
async fn a_token_of_one_runner_takes_no_name_that_another_runner_reserves() {
    let (api, key) = (far_away().await, Key::new());
    let job = json!({ "namespace": "jobs", "service_account": "canyon" });
    let configuration = json!({ "type": "kubernetes-agent", "key": key.pem(), "job": job });
    api.make("/runners", far("polled", configuration)).await;
    let configuration = json!({ "type": "docker-agent", "agents": { "ids": ["vienna"] } });
    api.make("/runners", far("other", configuration)).await;
    let secret = token(&api, json!({ "runner_id": "far" })).await;
    for name in ["polled", "vienna"] {
        let (status, answer) = opens(&api, &secret, name, "a").await;
        assert_eq!((status, &answer["state"]), (202, &json!("pending")), "{name}: {answer}");
    }
    let path = "/remote-runners/polled/actions/poll-requests?wait_seconds=0";
    let polled = api.call_as(&key.token(&api, "polled"), Method::POST, path, None).await;
    assert_eq!(polled, (204, Value::Null));
    let its_own = token(&api, json!({ "runner_id": "other" })).await;
    assert_eq!(opens(&api, &its_own, "vienna", "a").await.0, 201);
    assert_eq!(opens(&api, &secret, "graz", "a").await.0, 201, "another name is free");

    // An agent that waits keeps its place, and the name of a profile is for the runners that use profiles.
    let waits = Key::new();
    let configuration = json!({ "type": "docker-agent", "agents": { "ids": ["vienna", "linz"] } });
    api.patch("/runners/other", json!({ "runner_configuration": configuration })).await;
    let profile = json!({ "id": "eu", "agents": { "ids": ["bonn", "posted"] }, "job": {} });
    api.make("/runner-profiles", profile).await;
    let job = json!({ "namespace": "jobs", "service_account": "canyon" });
    let configuration = json!({ "type": "kubernetes-agent", "key": Key::new().pem(), "job": job });
    api.make("/runners", far("posted", configuration)).await;
    api.clock.advance(Duration::from_secs(6));
    let mut body = opening("a");
    body["public_key"] = json!(waits.pem());
    let asks = say(&api, &waits.token(&api, "linz"), "linz/sessions", body).await;
    assert_eq!(asks.0, 202, "{}", asks.1);
    for name in ["linz", "bonn"] {
        assert_eq!(opens(&api, &secret, name, "a").await.0, 202, "{name}");
    }
    assert_eq!(view(&api, "linz").await["fingerprint"], waits.fingerprint());
    for (profile, status) in [("staging", 202), ("${environment.type}", 201)] {
        configure(&api, json!({ "type": "docker-agent", "profile": profile })).await;
        api.clock.advance(Duration::from_secs(6));
        assert_eq!(opens(&api, &secret, "bonn", "a").await.0, status, "{profile}");
    }
    let polled = opens(&api, &secret, "posted", "a").await;
    assert_eq!(polled.0, 202, "its runner's programs cannot poll under another name: {}", polled.1);
}

#[tokio::test]
async fn the_ids_that_a_runner_profile_names_are_reserved_too() {
    let api = far_away().await;
    let profile = json!({ "id": "eu", "agents": { "ids": ["berlin", "bonn"] }, "job": {} });
    api.make("/runner-profiles", profile).await;
    let labels = for_labels(&api).await;
    let (status, answer) = opens(&api, &labels, "berlin", "a").await;
    assert_eq!((status, &answer["state"]), (202, &json!("pending")), "{answer}");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("runner profile `eu`"), "{warnings}");
    assert_eq!(opens(&api, &labels, "boston", "a").await.0, 201, "another name is free");
    let free = token(&api, json!({})).await;
    assert_eq!(open(&api, &free, "berlin", "b").await, 1);
}

#[tokio::test]
async fn where_requests_are_refused_a_reserved_name_is_refused_without_a_word_of_adoption() {
    let api = far_away().await;
    reserve(&api, &["berlin"]).await;
    let labels = for_labels(&api).await;
    assert_eq!(api.patch("", json!({ "agent_requests": "refused" })).await.0, 200);
    let (status, answer) = opens(&api, &labels, "berlin", "a").await;
    assert_eq!((status, &answer["state"]), (202, &json!("pending")), "{answer}");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("`far`") && warnings.contains("another name"), "{warnings}");
    assert!(!warnings.contains("canyon adopt"), "{warnings}");
    assert_eq!(api.act("/agents/berlin/actions/adopt").await.0, 404, "there is nothing to adopt");
}
