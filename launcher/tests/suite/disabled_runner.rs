//! A disabled runner launches nothing, and running jobs continue.

use crate::world::{RUNNER, World, record};
use canyon_domain::deployment::Status;
use canyon_domain::ids::OrgUuid;
use canyon_store::outcome::Saved;

async fn switch(world: &World, org: OrgUuid, disabled: bool) {
    let runner = RUNNER.parse().unwrap();
    let saved = world.table.set_runner_disabled(org, &runner, disabled, &record()).await.unwrap();
    assert_eq!(saved, Saved::Yes);
}

#[tokio::test]
async fn a_deployment_waits_while_its_runner_is_disabled_and_its_message_says_so() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    switch(&world, org, true).await;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    let held = world.read(due).await;
    assert_eq!((held.status, held.attempts.len()), (Status::Queued, 0), "{held:?}");
    assert_eq!(held.message, "runner `somewhere` is disabled");
    assert!(held.due_at.is_some_and(|at| at > held.created_at), "{held:?}");

    switch(&world, org, false).await;
    world.clock.by(31);
    world.reconcile(due).await;
    let launched = world.read(due).await;
    assert_eq!((launched.status, launched.message.as_str()), (Status::Launching, ""));
    assert_eq!(platform.count("start"), 1);
}

#[tokio::test]
async fn a_running_job_is_observed_as_before_when_its_runner_is_disabled() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.claim(due).await;
    switch(&world, org, true).await;
    *platform.job.lock().unwrap() = Some(canyon_domain::deadline::Observation::Gone(None));
    world.clock.by(61);
    world.reconcile(due).await;
    // The end counts, as for a runner that was not changed, and the next attempt waits.
    let held = world.read(due).await;
    assert!(held.attempts[0].ended.is_some() && held.attempts[0].job_gone_at.is_some(), "{held:?}");
    world.clock.by(600);
    world.reconcile(due).await;
    let held = world.read(due).await;
    assert_eq!(held.attempts.len(), 1, "{held:?}");
    assert_eq!(held.message, "runner `somewhere` is disabled");

    // Every wait has a limit, also that for another attempt.
    world.clock.by(7 * 24 * 3_600);
    world.reconcile(due).await;
    let ended = world.read(due).await;
    assert_eq!(ended.status, Status::Failed);
    assert!(ended.message.ends_with("for its turn: runner `somewhere` is disabled"), "{ended:?}");
}
