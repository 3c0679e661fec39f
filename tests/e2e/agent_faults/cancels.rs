//! A cancel at any step of a job ends the deployment, and no process of the job goes on.

use super::gate::{Side, Step};
use super::world::{AGENT, Victims, World};
use crate::harness::deployments::end;
use crate::harness::ledger;
use std::time::{Duration, Instant};

/// Far longer than a job takes to end on request, and far shorter than the deadlines that end it in
/// any case.
const SOON: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_at_each_step() {
    let world = World::new().await;
    let agent = world.agent(AGENT).await;
    let moments = [
        (Step::Offer, Side::After),
        (Step::Take, Side::Before),
        (Step::Take, Side::After),
        (Step::Report, Side::Before),
        (Step::Report, Side::After),
    ];
    for (round, (step, side)) in (1..).zip(moments) {
        let waiting = world.gate.trap(step, side);
        let id = world.accept(round, 1, "300").await;
        let held = waiting.caught().await;
        let since = Instant::now();
        world.site.client.cancel(&id).await.unwrap();
        held.pass();
        let ended = end(&world.site.client, &id).await;
        println!("cancelled at {step:?}, {side:?}: ended after {:?}", since.elapsed());
        assert_eq!(ended.status, "cancelled", "{step:?} {side:?}: {ended:#?}");
        assert!(since.elapsed() < SOON, "{step:?} {side:?}: {:?}", since.elapsed());
        assert_eq!(ledger::indexes(&world.ledger(), "end", round), [0; 0]);
        world.assert_nothing_left(&agent, &id).await;
    }
    let id = world.accept(100, 1, "300").await;
    world.until_begun(100).await;
    world.site.client.cancel(&id).await.unwrap();
    assert_eq!(end(&world.site.client, &id).await.status, "cancelled");
    world.assert_nothing_left(&agent, &id).await;
    // The lock is free.
    let id = world.accept(101, 1, "0").await;
    world.assert_done_once(&id, 101, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_without_an_agent() {
    let world = World::new().await;
    let id = world.accept(1, 1, "300").await;
    world.site.until(&id, "the wait for an agent", |deployment| deployment.waiting.is_some()).await;
    let since = Instant::now();
    world.site.client.cancel(&id).await.unwrap();
    let ended = end(&world.site.client, &id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    // An agent that connects later is not offered the job.
    let agent = world.agent(AGENT).await;
    let next = world.accept(2, 1, "0").await;
    world.assert_done_once(&next, 2, 1).await;
    assert_eq!(ledger::indexes(&world.ledger(), "begin", 1), [0; 0]);
    world.assert_nothing_left(&agent, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_while_the_agent_is_dead_and_its_job_runs() {
    let world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    let id = world.accept(1, 1, "300").await;
    world.until_begun(1).await;
    agent.kill();
    let since = Instant::now();
    world.site.client.cancel(&id).await.unwrap();
    // The job itself learns of the cancel from Canyon.
    let ended = end(&world.site.client, &id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    agent.start_again();
    world.assert_nothing_left(&agent, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_whichever_program_is_killed_while_the_request_is_in_flight() {
    let mut world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    let moments = [
        (Victims::Agent, Step::Stop, Side::After),
        (Victims::Agent, Step::Stopped, Side::Before),
        (Victims::Agent, Step::Stopped, Side::After),
        (Victims::Canyon, Step::Stop, Side::After),
        (Victims::Canyon, Step::Stopped, Side::Before),
        (Victims::Both, Step::Stop, Side::After),
    ];
    for (round, (victims, step, side)) in (1..).zip(moments) {
        println!("round {round}: {victims:?} killed {side:?} {step:?}");
        let id = world.accept(round, 1, "300").await;
        world.until_begun(round).await;
        let waiting = world.gate.trap(step, side);
        let since = Instant::now();
        world.site.client.cancel(&id).await.unwrap();
        let held = waiting.caught().await;
        victims.die_and_return(&mut world, &mut agent, held).await;
        let ended = end(&world.site.client, &id).await;
        let took = since.elapsed();
        assert_eq!(ended.status, "cancelled", "{victims:?} {step:?} {side:?}: {ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "{victims:?} {step:?} {side:?}: {ended:#?}");
        assert!(took < SOON, "{victims:?} {step:?} {side:?}: {took:?}");
        assert_eq!(ledger::indexes(&world.ledger(), "end", round), [0; 0]);
        world.assert_nothing_left(&agent, &id).await;
    }
    // The lock is free.
    let id = world.accept(100, 1, "0").await;
    world.assert_done_once(&id, 100, 1).await;
}
