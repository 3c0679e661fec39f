//! An agent gets nothing further once an administrator has rejected, forgotten or disabled it, or revoked its
//! token.

use super::agent::Agent;
use super::world::{AGENT, RUNNER, World, new_token};
use canyon_api::agent::AgentUpdateBody;
use std::time::{Duration, Instant};

/// The documented limit.
const REVOKED: Duration = Duration::from_secs(5);

/// The next deployment waits, and no agent has taken it.
async fn nobody_takes(world: &World, round: u32, since: Instant) -> String {
    tokio::time::sleep(REVOKED.saturating_sub(since.elapsed())).await;
    world.gate.take();
    let id = world.accept(round, 1, "0").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let now = world.site.client.deployment(&id).await.unwrap();
    assert!(now.completed_at.is_none(), "{now:#?}");
    let reason = now.waiting.as_ref().map(|waiting| waiting.reason.clone()).unwrap_or_default();
    // An agent whose token was revoked may be offered work until it has been silent for a minute; it cannot
    // take it.
    let waits = format!("waiting for an agent of runner `{RUNNER}`");
    let is_offered = reason == format!("offered to agent `{AGENT}`");
    assert!(reason.contains(&waits) || is_offered, "{reason}");
    println!("round {round}: {reason}");
    for request in world.gate.take() {
        assert!(!request.path.ends_with("/take") || request.status >= 400, "{request:?}");
    }
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_agent_ends_within_five_seconds_and_works_again_when_it_is_adopted() {
    let world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    let since = Instant::now();
    world.site.client.reject_agent(AGENT).await.unwrap();
    let ended = agent.ended(REVOKED).await;
    println!("rejected: ended after {:?}", since.elapsed());
    assert_eq!(ended.code(), Some(77), "{}", agent.log());
    let id = nobody_takes(&world, 1, since).await;
    agent.start_again();
    assert_eq!(agent.ended(Duration::from_secs(30)).await.code(), Some(77), "{}", agent.log());
    world.site.client.adopt_agent(AGENT).await.unwrap();
    agent.start_again();
    world.assert_done_once(&id, 1, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_agent_finishes_what_it_runs_and_gets_nothing_else() {
    let world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    let running = world.accept(1, 1, "3").await;
    world.until_begun(1).await;
    let since = Instant::now();
    switch(&world, true).await;
    world.assert_done_once(&running, 1, 1).await;
    world.assert_nothing_left(&agent, &running).await;
    let id = nobody_takes(&world, 2, since).await;
    assert!(agent.lives(), "{}", agent.log());
    switch(&world, false).await;
    world.assert_done_once(&id, 2, 1).await;
}

async fn switch(world: &World, disabled: bool) {
    let body = AgentUpdateBody { disabled: Some(disabled), ..Default::default() };
    world.site.client.update_agent(AGENT, &body).await.unwrap();
}

/// An agent with a token of its own, and the id of that token.
async fn agent_with_its_own_token(world: &World) -> (Agent, String) {
    let made = new_token(&world.site).await;
    let mut spec = world.spec(AGENT);
    let secret = made["secret"].as_str().unwrap();
    spec.variables.iter_mut().filter(|(name, _)| name == "CANYON_TOKEN").for_each(|(_, value)| {
        secret.clone_into(value);
    });
    let agent = Agent::start(spec);
    world.until_agent(&agent, AGENT, "wait for work", |view| view.availability == "idle").await;
    (agent, made["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_token_was_replaced_goes_on_with_its_job() {
    let world = World::new().await;
    let (mut former, token) = agent_with_its_own_token(&world).await;
    let id = world.accept(1, 1, "3").await;
    world.until_begun(1).await;
    world.site.client.delete(&["tokens", &token], &[]).await.unwrap();
    former.kill();
    // The agent's folder stays, with the runner's other token.
    let agent = world.agent_that_starts(AGENT);
    world.assert_done_once(&id, 1, 1).await;
    world.assert_nothing_left(&agent, &id).await;
    let view = world.site.client.agent(AGENT).await.unwrap();
    assert_eq!(view.session.unwrap().number, 2);
    assert_ne!(view.principal, Some(token));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_token_is_revoked_gets_nothing_within_five_seconds() {
    let world = World::new().await;
    let (agent, token) = agent_with_its_own_token(&world).await;
    let since = Instant::now();
    world.site.client.delete(&["tokens", &token], &[]).await.unwrap();
    let id = nobody_takes(&world, 1, since).await;
    drop(agent);
    // Another agent with a valid token takes the job.
    let another = world.agent("another").await;
    world.assert_done_once(&id, 1, 1).await;
    drop(another);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_agent_with_a_key_must_be_adopted_again() {
    let world = World::new().await;
    let mut spec = world.spec(AGENT);
    spec.variables.retain(|(name, _)| name != "CANYON_TOKEN");
    let agent = Agent::start(spec);
    let pending = |view: &canyon_api::agent::AgentView| view.state.as_str() == "pending";
    world.until_agent(&agent, AGENT, "ask to be adopted", pending).await;
    let id = nobody_takes(&world, 1, Instant::now()).await;
    world.site.client.cancel(&id).await.unwrap();
    world.site.client.adopt_agent(AGENT).await.unwrap();
    let first = Instant::now();
    world.until_agent(&agent, AGENT, "work", |view| view.session.is_some()).await;
    println!("adopted: its session began after {:?}", first.elapsed());
    world.site.client.forget_agent(AGENT).await.unwrap();
    let since = Instant::now();
    let id = nobody_takes(&world, 2, since).await;
    // It registers again, and is adopted again.
    world.until_agent(&agent, AGENT, "ask again", pending).await;
    world.site.client.adopt_agent(AGENT).await.unwrap();
    world.assert_done_once(&id, 2, 1).await;
}
