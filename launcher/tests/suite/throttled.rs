//! A platform takes so many starts a second. Of thousands of launches at once, most wait there for their turn.

use crate::world::World;
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::Status;

/// The defaults of a runner.
const START_SECONDS: i64 = 300;
const QUEUE_SECONDS: i64 = 86_400;
/// Longer than the pause for which the platform asks, 50 s.
const PAUSE: i64 = 60;

#[tokio::test]
async fn a_launch_may_wait_longer_for_its_turn_than_a_runner_may_take_to_start() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.throttles.lock().unwrap() = true;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    // The launcher may come late, too.
    for wait in [PAUSE, 2 * START_SECONDS] {
        world.clock.by(wait);
        world.reconcile(due).await;
        let waits = world.read(due).await;
        let attempt = waits.open_attempt().unwrap();
        assert_eq!((attempt.number, attempt.waiting.as_deref()), (1, Some("others come first")));
    }
    *platform.throttles.lock().unwrap() = false;
    world.clock.by(PAUSE);
    world.reconcile(due).await;
    let started = world.read(due).await;
    assert_eq!(started.open_attempt().unwrap().handle.as_deref(), Some("a-job"));

    world.clock.by(START_SECONDS - PAUSE);
    world.reconcile(due).await;
    assert!(world.read(due).await.open_attempt().unwrap().stop.is_none(), "before its time");
    world.clock.by(PAUSE);
    world.reconcile(due).await;
    assert!(world.read(due).await.open_attempt().unwrap().stop.is_some(), "no runner claimed it");
}

#[tokio::test]
async fn a_launch_that_never_gets_its_turn_fails_after_the_time_of_the_queue_and_says_why() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.throttles.lock().unwrap() = true;
    *platform.job.lock().unwrap() = Some(Observation::Gone(None));
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.clock.by(QUEUE_SECONDS - PAUSE);
    world.reconcile(due).await;
    assert!(world.read(due).await.open_attempt().is_some(), "before its time");
    world.clock.by(PAUSE);
    world.reconcile(due).await;
    let deployment = world.read(due).await;
    assert_eq!(deployment.status, Status::Failed);
    let wanted = "its platform took no start within the runner's `timeouts.queue_seconds`: others come first";
    assert_eq!(deployment.message, wanted);
}

#[tokio::test]
async fn a_hint_before_its_turn_asks_the_platform_for_no_second_start() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.throttles.lock().unwrap() = true;
    let due = world.accept(org).await;
    for _ in 0..3 {
        world.reconcile(due).await;
    }
    assert_eq!(platform.count("start"), 1);
    *platform.throttles.lock().unwrap() = false;
    world.clock.by(PAUSE);
    world.reconcile(due).await;
    assert_eq!(platform.count("start"), 2);
    assert_eq!(world.read(due).await.attempts.len(), 1);
}
