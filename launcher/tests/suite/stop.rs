//! A job that Canyon stops at a deadline.

use crate::world::{World, until};
use canyon_domain::attempt::StopReason;

/// More than the silence after which a run is stopped.
const SILENCE: i64 = 301;

#[tokio::test]
async fn a_stop_is_recorded_before_the_signal_and_the_signal_is_repeated_after_a_crash() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.claim(due).await;
    world.clock.by(SILENCE);
    platform.silent_at(&["stop"]);
    let launcher = world.launcher.clone();
    let killed = tokio::spawn(async move {
        launcher.reconcile(due, canyon_launcher::ReconcileTrigger::Due).await
    });
    until("it stops the job", || platform.count("stop") == 1).await;
    // What the API answers if the runner reports now.
    let stop = world.read(due).await.open_attempt().unwrap().stop.clone().unwrap();
    assert_eq!(stop.reason, StopReason::Silence);
    killed.abort();
    platform.silent_at(&[]);

    world.clock.by(2);
    world.reconcile(due).await;
    assert_eq!((platform.count("stop"), platform.count("observe")), (2, 1));
    assert_eq!(world.read(due).await.open_attempt().unwrap().stop, Some(stop), "it was asked once");
}
