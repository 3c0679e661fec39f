//! How many requests to the table a launch costs. Each takes milliseconds on AWS, and is billed.

use crate::world::World;
use canyon_launcher::ReconcileTrigger;
use canyon_store::meter::Meter;

/// The platform of this test names its job by a handle, as ECS does. That is a request more than a process or a Job in a
/// cluster takes.
pub(crate) const HANDLE: u64 = 1;

#[tokio::test]
async fn a_launch_takes_four_requests_and_three_while_the_limits_are_known() {
    let mut world = World::new().await;
    let (org, script) = world.organization("acme").await;
    let meter = Meter::default();
    world.launcher.table = meter.watch(&world.table);
    for wanted in [4 + HANDLE, 3 + HANDLE] {
        let due = world.accept(org).await;
        world.launcher.reconcile(due, ReconcileTrigger::Due).await.unwrap();
        let taken = meter.take();
        assert_eq!(taken.requests(), wanted, "{taken:#?}");
    }
    assert_eq!(script.count("start"), 2);
}
