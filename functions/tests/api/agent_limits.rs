//! How many agents one token or one runner's key may have.

use crate::agent_world::{Key, far_away, opening, order, say, token, view};
use crate::harness::{Answer, Api, message};
use canyon_domain::agent::Agent;
use canyon_domain::ids::AgentId;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

async fn opens(api: &Api, secret: &str, name: &str) -> Answer {
    say(api, secret, &format!("{name}/sessions"), opening("a")).await
}

async fn stored(api: &Api, name: &str) -> Agent {
    api.app.table.agent(api.ours.uuid, &name.parse().unwrap()).await.unwrap().unwrap()
}

/// Stores 1,000 agents, less those that are there, like the one that is called `first`: `more-000` and so on.
async fn fill(api: &Api, first: &str, there: usize) {
    copy(api, first, "more", 1_000 - there).await;
    // So long this process does not see what another one registers.
    api.clock.advance(Duration::from_secs(10));
}

/// Stores agents like the one that is called `first`, as another process of the API would.
async fn copy(api: &Api, first: &str, name: &str, count: usize) {
    let first = stored(api, first).await;
    for number in 0..count {
        let id: AgentId = format!("{name}-{number:03}").parse().unwrap();
        let agent = Agent { id, ..first.clone() };
        api.app.table.create_agent(api.ours.uuid, &agent, None).await.unwrap();
    }
}

async fn names(api: &Api) -> Vec<String> {
    let all = api.app.table.all_agents(api.ours.uuid).await.unwrap();
    all.into_iter().map(|agent| agent.id.to_string()).collect()
}

async fn polls(api: &Api, secret: &str, name: &str) -> Value {
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let (status, work) = say(api, secret, &format!("{name}/sessions/1/poll"), poll).await;
    assert_eq!(status, 200, "{work}");
    work["offers"].clone()
}

#[tokio::test]
async fn a_token_has_a_thousand_agents_and_a_new_one_replaces_the_longest_silent() {
    let api = far_away().await;
    let secret = token(&api, json!({})).await;
    let kept = ["connected", "settled", "adopted", "disabled", "rejected", "works"];
    for name in kept {
        assert_eq!(opens(&api, &secret, name).await.0, 201, "{name}");
    }
    let labels = json!({ "labels": { "region": "eu" } });
    assert_eq!(api.patch("/agents/settled", labels).await.0, 200);
    assert_eq!(api.act("/agents/adopted/actions/adopt").await.0, 200);
    assert_eq!(api.patch("/agents/disabled", json!({ "disabled": true })).await.0, 200);
    assert_eq!(api.act("/agents/rejected/actions/reject").await.0, 200);
    let (_, job) = order(&api).await;
    assert_eq!(polls(&api, &secret, "works").await, json!([job]));
    let taken = say(&api, &secret, "works/sessions/1/take", json!({ "jobs": [job] })).await;
    assert_eq!(taken.1["taken"][0]["job"], job, "{}", taken.1);
    api.clock.advance(Duration::from_secs(1));
    assert_eq!(opens(&api, &secret, "first").await.0, 201);
    assert_eq!(opens(&api, &secret, "ends").await.0, 201);
    fill(&api, "first", kept.len() + 2).await;

    let refused = opens(&api, &secret, "late").await;
    assert_eq!(refused.0, 429, "{}", refused.1);
    // An agent that has ended its session is not waited for.
    let path = "/agents/ends/sessions/1";
    assert_eq!(api.call_as(&secret, Method::DELETE, path, None).await.0, 204);
    assert_eq!(opens(&api, &secret, "restarted").await.0, 201);
    assert_eq!(opens(&api, &secret, "late").await.0, 429);
    let told = message(&refused);
    assert!(told.contains("1000 agents") && told.contains("canyon forget agent"), "{told}");
    assert_eq!(opens(&api, &secret, "first").await.0, 201, "it is known");
    let other = token(&api, json!({})).await;
    assert_eq!(opens(&api, &other, "of-another").await.0, 201, "another token has its own");

    api.clock.advance(Duration::from_mins(9));
    polls(&api, &secret, "connected").await;
    assert_eq!(opens(&api, &secret, "late").await.0, 429);
    api.clock.advance(Duration::from_mins(2));
    assert_eq!(opens(&api, &secret, "late").await.0, 201);
    let names = names(&api).await;
    assert_eq!(names.len(), 1_001, "a thousand and the other token's one");
    assert!(!names.contains(&"more-000".to_owned()), "{names:?}");
    for name in kept.into_iter().chain(["late", "of-another", "more-001"]) {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    let audit = api.audit().await;
    assert_eq!(audit[..2], ["agent.join agents/late", "agent.forget agents/more-000"]);
}

#[tokio::test]
async fn agents_that_join_together_cause_few_reads_of_all_agents() {
    let mut api = far_away().await;
    let secret = token(&api, json!({})).await;
    assert_eq!(opens(&api, &secret, "first").await.0, 201);
    fill(&api, "first", 500).await;
    let meter = api.serve_metered().await;
    let reads_all = async |secret: &str, name: &str| {
        meter.take();
        assert_eq!(opens(&api, secret, name).await.0, 201, "{name}");
        meter.take().read_units() > 50.0
    };
    // There are 501. A process may use a 32nd part of the other 499, and then counts again.
    assert!(reads_all(&secret, "second").await);
    for number in 0..15 {
        assert!(!reads_all(&secret, &format!("joins-{number}")).await);
    }
    assert!(reads_all(&secret, "third").await);
    let other = token(&api, json!({})).await;
    assert!(!reads_all(&other, "of-another").await, "the count was of all");
    api.clock.advance(Duration::from_secs(10));
    assert!(reads_all(&secret, "fourth").await);
}

#[tokio::test]
async fn agents_that_join_together_stop_at_the_limit() {
    let api = far_away().await;
    let secret = token(&api, json!({})).await;
    assert_eq!(opens(&api, &secret, "first").await.0, 201);
    fill(&api, "first", 41).await;
    let mut accepted = 0;
    for number in 0..60 {
        accepted += usize::from(opens(&api, &secret, &format!("joins-{number}")).await.0 == 201);
    }
    assert_eq!(accepted, 40);
}

#[tokio::test]
async fn agents_beyond_the_limit_make_way_for_new_ones_some_at_a_time() {
    let api = far_away().await;
    let secret = token(&api, json!({})).await;
    assert_eq!(opens(&api, &secret, "first").await.0, 201);
    // Concurrent processes have registered 50 too many, of which all but the first have been silent since.
    fill(&api, "first", 1).await;
    copy(&api, "first", "surplus", 50).await;
    assert_eq!(opens(&api, &secret, "late").await.0, 429);
    api.clock.advance(Duration::from_mins(11));
    for (name, left) in [("a", 1_031), ("b", 1_012), ("c", 1_000), ("d", 1_000)] {
        assert_eq!(opens(&api, &secret, name).await.0, 201, "{name}");
        assert_eq!(names(&api).await.len(), left, "{name}");
    }
}

#[tokio::test]
async fn a_runners_key_has_a_thousand_agents() {
    let (api, key) = (far_away().await, Key::new());
    let configuration = json!({ "type": "docker-agent", "key": key.pem() });
    let patch = json!({ "runner_configuration": configuration });
    assert_eq!(api.patch("/runners/far", patch).await.0, 200);
    api.clock.advance(Duration::from_secs(6));
    let by_key = async |name: &str| {
        let mut body = opening("a");
        body["public_key"] = json!(key.pem());
        say(&api, &key.token(&api, name), &format!("{name}/sessions"), body).await
    };
    assert_eq!(by_key("first").await.0, 201);
    fill(&api, "first", 1).await;
    assert_eq!(by_key("late").await.0, 429);
    assert_eq!(by_key("first").await.0, 201, "it is known");
    assert_eq!(api.delete("/agents/more-007").await.0, 204);
    assert_eq!(by_key("late").await.0, 201);
    assert_eq!(view(&api, "late").await["state"], "adopted");
}
