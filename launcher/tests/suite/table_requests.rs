//! How many requests to the table a launch costs. Each takes milliseconds on AWS, and is billed.

use crate::cleanup::running;
use crate::concurrency::end;
use crate::world::World;
use canyon_dispatch::JobRef;
use canyon_launcher::{ReconcileTrigger, Sweeper};
use canyon_store::meter::Meter;
use tokio::task::JoinSet;

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

#[tokio::test]
async fn the_removal_of_a_job_takes_two_requests_on_a_laptop_and_on_aws() {
    let mut world = World::new().await;
    let (org, script) = world.organization("acme").await;
    let meter = Meter::default();
    world.launcher.table = meter.watch(&world.table);
    let sweeper = Sweeper::new(world.launcher.clone());

    // Of its deployment, and then of its process. Either may come first.
    let due = running(&world, org).await;
    end(&world, due).await;
    let (image, mut tasks) = (world.read(due).await, JoinSet::new());
    meter.take();
    sweeper.clean_up_ended(due, Some(image), &mut tasks);
    tasks.join_all().await;
    let job = JobRef { deployment: due.id, attempt: 1, handle: None };
    let mut tasks = JoinSet::new();
    assert!(!sweeper.job_gone(org, &job, &mut tasks).await.unwrap(), "its remains may be removed");
    tasks.join_all().await;
    let taken = meter.take();
    assert_eq!((taken.requests(), taken.write_units()), (2, 0.0), "{taken:#?}");

    // The function takes one less than this reconciliation: the stream has the deployment.
    world.table = world.table.clone().with_published_ends();
    world.launcher.table = meter.watch(&world.table);
    let due = running(&world, org).await;
    end(&world, due).await;
    meter.take();
    world.launcher.reconcile(due, ReconcileTrigger::EndPublished).await.unwrap();
    let taken = meter.take();
    assert_eq!((taken.requests(), taken.write_units()), (3, 2.0), "{taken:#?}");
    assert_eq!(script.count("forget"), 2);
}
