//! `kill -9` at each step of a job: each deployment ends once, no work is done twice, and no job is left over.

use super::agent::Agent;
use super::gate::{Side, Step};
use super::world::{AGENT, Victims, World, job_process};
use crate::harness::deployments::{end, failure};
use crate::harness::ledger;
use crate::harness::processes;
use canyon_api::deployment::Deployment;
use canyon_domain::failure::FailureClass;
use rustix::process::Signal;
use std::collections::BTreeSet;

/// Each step, before Canyon receives the request and after it has answered.
const MOMENTS: [(Step, Side); 11] = [
    (Step::Offer, Side::After),
    (Step::Take, Side::Before),
    (Step::Take, Side::After),
    (Step::Report, Side::Before),
    (Step::Report, Side::After),
    (Step::Gone, Side::Before),
    (Step::Gone, Side::After),
    (Step::Forget, Side::After),
    (Step::Forgotten, Side::Before),
    (Step::Forgotten, Side::After),
    // The first step again, so that it also meets processes that have been restarted.
    (Step::Offer, Side::After),
];
/// Resources of each deployment in these tests.
const COUNT: u32 = 3;

/// How many attempts a deployment takes if the agent is killed at this moment.
///
/// The answer to a take is the only place that holds what a job is started with; it is stored nowhere. An agent that
/// dies before it receives that answer can never start the job. Its next process finds no such job and reports that,
/// and Canyon launches another. At each other moment the job is still to be taken, or runs, or is done, so one
/// attempt must do. A second attempt there would mean that a process reported a running job as dead.
fn attempts_after_kill_of_agent(moment: (Step, Side)) -> usize {
    if moment == (Step::Take, Side::After) { 2 } else { 1 }
}

/// The deployment took `wanted` attempts, and no attempt before the last was ever started.
#[track_caller]
fn assert_attempts(ended: &Deployment, wanted: usize, moment: (Step, Side)) {
    assert_eq!(ended.attempts.len(), wanted, "{moment:?}: {ended:#?}");
    let mut former = ended.attempts.iter().take(wanted - 1);
    assert!(former.all(|attempt| attempt.claimed_at.is_none()), "{moment:?}: {ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_at_any_step_loses_nothing_and_repeats_nothing() {
    let world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    for (round, (step, side)) in (1..).zip(MOMENTS) {
        println!("round {round}: the agent is killed {side:?} {step:?}");
        let waiting = world.gate.trap(step, side);
        let id = world.accept(round, COUNT, "0.2").await;
        let held = waiting.caught().await;
        agent.kill();
        held.lose();
        agent.start_again();
        let ended = world.assert_done_once(&id, round, COUNT).await;
        assert_attempts(&ended, attempts_after_kill_of_agent((step, side)), (step, side));
        world.assert_nothing_left(&agent, &id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn canyon_that_is_killed_at_any_step_loses_nothing_and_repeats_nothing() {
    let mut world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    for (round, (step, side)) in (1..).zip(MOMENTS) {
        println!("round {round}: Canyon is killed {side:?} {step:?}");
        let waiting = world.gate.trap(step, side);
        let id = world.accept(round, COUNT, "0.2").await;
        let held = waiting.caught().await;
        world.site.server.kill();
        // The answer may have left before the kill, or not.
        if round % 2 == 0 {
            held.pass();
        } else {
            held.lose();
        }
        world.site.server.restart().await;
        let ended = world.assert_done_once(&id, round, COUNT).await;
        // The living agent retries its take, and gets the answer.
        assert_attempts(&ended, 1, (step, side));
        world.assert_nothing_left(&agent, &id).await;
        assert!(agent.lives(), "the agent waits for Canyon to come back\n{}", agent.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_that_are_killed_at_any_step_lose_nothing_and_repeat_nothing() {
    let mut world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    for (round, (step, side)) in (1..).zip(MOMENTS) {
        println!("round {round}: both are killed {side:?} {step:?}");
        let waiting = world.gate.trap(step, side);
        let id = world.accept(round, COUNT, "0.2").await;
        let held = waiting.caught().await;
        agent.kill();
        world.site.server.kill();
        held.lose();
        agent.start_again();
        world.site.server.restart().await;
        let ended = world.assert_done_once(&id, round, COUNT).await;
        assert_attempts(&ended, attempts_after_kill_of_agent((step, side)), (step, side));
        world.assert_nothing_left(&agent, &id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_a_kill_interrupts_loses_no_running_job() {
    let mut world = World::new().await;
    let mut agent = world.agent(AGENT).await;
    let victims = [Victims::Agent, Victims::Canyon, Victims::Both];
    let moments = victims.map(|victims| [(victims, Side::Before), (victims, Side::After)]);
    for (round, (victims, side)) in (1..).zip(moments.into_iter().flatten()) {
        println!("round {round}: {victims:?} killed {side:?} the opening");
        let id = world.accept(round, COUNT, "1.5").await;
        world.until_begun(round).await;
        let waiting = world.gate.trap(Step::Open, side);
        agent.kill();
        agent.start_again();
        let held = waiting.caught().await;
        victims.die_and_return(&mut world, &mut agent, held).await;
        let ended = world.assert_done_once(&id, round, COUNT).await;
        assert_attempts(&ended, 1, (Step::Open, side));
        world.assert_nothing_left(&agent, &id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_before_its_apply_is_replaced_and_later_ends_its_deployment() {
    let world = World::new().await;
    let agent = world.agent(AGENT).await;
    let mut replaced = 0;
    for round in 1..=3 {
        let id = world.accept(round, COUNT, "0.2").await;
        processes::signal(job_process(&agent, &id).await, Signal::KILL);
        let ended = world.assert_done_once(&id, round, COUNT).await;
        replaced += usize::from(ended.attempts.len() == 2);
        world.assert_nothing_left(&agent, &id).await;
    }
    assert!(replaced > 0, "each kill came too late to prove anything");

    for round in 4..=5 {
        let id = world.accept(round, COUNT, "1").await;
        let pid = job_process(&agent, &id).await;
        world.until_begun(round).await;
        processes::signal(pid, Signal::KILL);
        let ended = end(&world.site.client, &id).await;
        assert_eq!(ended.status, "failed", "{ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated: {ended:#?}");
        assert_eq!(failure(&ended).0, FailureClass::Lost, "{ended:#?}");
        // The kill came when the first resource had begun; some of the others may not have.
        let begun = ledger::indexes(&world.ledger(), "begin", round);
        let distinct: BTreeSet<_> = begun.iter().collect();
        assert_eq!(distinct.len(), begun.len(), "none began twice: {begun:?}");
        world.assert_nothing_left(&agent, &id).await;
    }
    // The lock is free, and the next deployment goes on with the saved state.
    let id = world.accept(6, COUNT, "0").await;
    world.assert_done_once(&id, 6, COUNT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_while_its_agent_and_canyon_are_away() {
    let mut world = World::new().await;
    let mut agent: Agent = world.agent(AGENT).await;
    let id = world.accept(1, COUNT, "3").await;
    world.until_begun(1).await;
    agent.kill();
    world.site.server.kill();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    world.site.server.restart().await;
    let ended = world.assert_done_once(&id, 1, COUNT).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    agent.start_again();
    world.assert_nothing_left(&agent, &id).await;
}
