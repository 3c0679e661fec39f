//! No agent is connected: no work is lost, and the deployment says which agents it waits for.

use super::world::{AGENT, RUNNER, World};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn work_waits_for_an_absent_agent_and_reports_that_even_after_a_restart() {
    let mut world = World::new().await;
    let never = format!("waiting for an agent of runner `{RUNNER}`: none has ever connected");
    let id = world.accept(1, 3, "0.1").await;
    waits(&world, &id, &never).await;
    world.site.server.kill();
    world.site.server.restart().await;
    waits(&world, &id, &never).await;

    let mut agent = world.agent_that_starts(AGENT);
    let ended = world.assert_done_once(&id, 1, 3).await;
    assert_eq!(ended.attempts.len(), 1, "it was launched once: {ended:#?}");
    world.assert_nothing_left(&agent, &id).await;

    // If an agent was connected and has left, the reason says when it left.
    agent.ask_to_end();
    agent.ended(Duration::from_secs(40)).await;
    let id = world.accept(2, 3, "0.1").await;
    waits(&world, &id, &format!("waiting for an agent of runner `{RUNNER}`, last seen 20")).await;
    world.site.server.stop();
    world.site.server.restart().await;
    waits(&world, &id, &format!("waiting for an agent of runner `{RUNNER}`, last seen 20")).await;
    agent.start_again();
    world.assert_done_once(&id, 2, 3).await;
}

/// Waits until the deployment reports that it waits, with this reason.
async fn waits(world: &World, id: &str, reason: &str) {
    let has = |waiting: &Option<canyon_api::deployment::Waiting>| {
        waiting.as_ref().is_some_and(|waiting| waiting.reason.contains(reason))
    };
    world.site.until(id, reason, |deployment| has(&deployment.waiting)).await;
}
