//! Agents that ask to be adopted, some of them unknown and hostile.

use crate::agent_world::{Key, far, far_away, opening, order, say, token};
use crate::harness::{Answer, Api};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The address of an unknown caller, as a proxy on this machine reports it.
const STRANGER: &str = "198.51.100.66";

/// An agent with its own key asks from this address.
pub(crate) async fn ask(api: &Api, name: &str, key: &Key, from: &str) -> u16 {
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    let url = format!("{}/orgs/{}/agents/{name}/sessions", api.url, api.ours.id);
    let asked = api.http.post(url).bearer_auth(key.token(api, name)).json(&body);
    let answer = asked.header("x-forwarded-for", from).send().await.unwrap();
    assert!(!answer.headers().contains_key("retry-after"), "no answer tells of limits");
    answer.status().as_u16()
}

async fn floods(api: &Api, from: &str, names: std::ops::Range<u32>) {
    for number in names {
        let status = ask(api, &format!("stranger-{number}"), &Key::new(), from).await;
        assert_eq!(status, 202, "as where nothing is");
    }
}

/// Whether Canyon has a record of the agent.
async fn is_there(api: &Api, name: &str) -> bool {
    api.get(&format!("/agents/{name}")).await.0 == 200
}

/// The pending agents.
async fn pending(api: &Api) -> Vec<Value> {
    let page = api.get("/agents?state=pending&per_page=100").await.1;
    page["items"].as_array().unwrap().clone()
}

/// The audit records about agents, as JSON.
async fn records(api: &Api) -> Vec<String> {
    let page = api.get("/audit-records?per_page=100").await.1;
    let records = page["items"].as_array().unwrap().iter();
    let of_agents =
        records.filter(|record| record["action"].as_str().unwrap().starts_with("agent."));
    of_agents.map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_agent_that_was_one_too_many_is_noted_seconds_later_however_long_the_flood_was() {
    let api = far_away().await;
    floods(&api, STRANGER, 0..200).await;
    let taken = pending(&api).await.len();
    assert!((10..=11).contains(&taken), "{taken} were noted");
    let key = Key::new();
    assert_eq!(ask(&api, "late", &key, STRANGER).await, 202);
    assert!(!is_there(&api, "late").await);
    api.clock.advance(Duration::from_secs(3));
    assert_eq!(ask(&api, "late", &key, STRANGER).await, 202);
    assert!(is_there(&api, "late").await, "what was refused uses nothing up");
}

#[tokio::test]
async fn a_flood_from_one_address_keeps_out_no_agent_of_another_address_or_organization() {
    let api = far_away().await;
    let neighbour = Key::new();
    assert_eq!(ask(&api, "neighbour", &neighbour, "192.0.2.1").await, 202);
    // More than one each second, for minutes.
    let mut number = 0;
    for round in 0..100 {
        floods(&api, STRANGER, number..number + 6).await;
        number += 6;
        if round % 10 == 0 {
            let name = format!("own-{round}");
            assert_eq!(ask(&api, &name, &Key::new(), "192.0.2.2").await, 202, "{name}");
            assert!(is_there(&api, &name).await, "{name}");
            assert_eq!(ask(&api, "neighbour", &neighbour, "192.0.2.1").await, 202);
            assert!(is_there(&api, "neighbour").await, "it waits still");
        }
        api.clock.advance(Duration::from_secs(4));
    }
    let pending = pending(&api).await;
    assert_eq!(pending.len(), 100);
    let of = |address: &str| pending.iter().filter(|agent| agent["asked_from"] == address).count();
    assert_eq!(
        (of("192.0.2.1"), of("192.0.2.2")),
        (1, 10),
        "the flooding address loses its own agents"
    );
    let records = records(&api).await;
    assert!(records.len() <= 30, "{} records: {records:?}", records.len());
    let summed = records.iter().filter(|record| record.contains("more changes of agents")).count();
    assert!(summed >= 3, "{records:?}");
}

#[tokio::test]
async fn a_flood_from_many_addresses_keeps_out_no_agent_that_is_known_or_has_a_token() {
    let api = far_away().await;
    let (key, own) = (Key::new(), Key::new());
    assert_eq!(ask(&api, "known", &key, "192.0.2.1").await, 202);
    api.act("/agents/known/actions/adopt").await;
    api.make("/runners", far("near", json!({ "key": own.pem() }))).await;
    for number in 0..60 {
        ask(&api, &format!("stranger-{number}"), &Key::new(), &format!("203.0.113.{number}")).await;
    }
    ask(&api, "other", &Key::new(), "192.0.2.9").await;
    assert!(!is_there(&api, "other").await);
    assert_eq!(ask(&api, "known", &key, "203.0.113.1").await, 201, "it is adopted");
    let token = token(&api, json!({})).await;
    let by_token: Answer = say(&api, &token, "by-token/sessions", opening("a")).await;
    assert_eq!(by_token.0, 201, "{}", by_token.1);
    let mut body = opening("a");
    (body["runner"], body["public_key"]) = (json!("near"), json!(own.pem()));
    let vouched = say(&api, &own.token(&api, "by-key"), "by-key/sessions", body).await;
    assert_eq!(vouched.0, 201, "{}", vouched.1);
    let (_, job) = order(&api).await;
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let work = say(&api, &token, "by-token/sessions/1/poll", poll).await;
    assert_eq!(work.1["offers"], json!([job]), "{}", work.1);
    api.clock.advance(Duration::from_secs(1));
    ask(&api, "other", &Key::new(), "192.0.2.9").await;
    assert!(is_there(&api, "other").await);
}

#[tokio::test]
async fn at_most_a_hundred_agents_are_pending_and_the_oldest_of_the_largest_group_is_dropped() {
    let api = far_away().await;
    assert_eq!(ask(&api, "lone", &Key::new(), "192.0.2.1").await, 202);
    for number in 0..100 {
        api.clock.advance(Duration::from_secs(3));
        let name = format!("stranger-{number}");
        assert_eq!(ask(&api, &name, &Key::new(), STRANGER).await, 202, "{name}");
    }
    assert_eq!(pending(&api).await.len(), 100);
    assert!(is_there(&api, "lone").await);
    assert!(!is_there(&api, "stranger-0").await);
    let lone: Value = api.call_as(&api.ours.viewer, Method::GET, "/agents/lone", None).await.1;
    assert_eq!(lone["asked_from"], "192.0.2.1");
}
