//! Checks for drift give way to deployments: in their environment, in a slot, and by their number.

use crate::concurrency::{end, limit};
use crate::retention::pass;
use crate::world::World;
use canyon_domain::attempt::{OVERTAKEN, Outcome, StopReason};
use canyon_domain::deployment::Status;
use canyon_domain::drift::{DriftStatus, MAX_CHECKS_AT_ONCE};
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_domain::waiting::Hold;
use canyon_launcher::Sweeper;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;

/// The deployments of `all` whose jobs run.
async fn running(world: &World, all: &[Due]) -> Vec<Due> {
    let mut found = Vec::new();
    for due in all {
        if world.read(*due).await.open_attempt().is_some() {
            found.push(*due);
        }
    }
    found
}

async fn runs(world: &World, due: Due) -> bool {
    !running(world, &[due]).await.is_empty()
}

/// The runner ends its job because Canyon has told it to stop.
async fn stops(world: &World, due: Due) {
    let (mut check, now) = (world.read(due).await, world.clock.now());
    lifecycle::end(&mut check, 1, Outcome::Cancelled, now).unwrap();
    check.version += 1;
    let saved = world.table.end_deployment(due.org, &check, now, None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
}

/// `count` checks are due, under a limit of the organization. Returns the world, the sweeper and the checks after a pass.
async fn checks_due(max_jobs: u32, count: u32) -> (World, Sweeper, Vec<Due>) {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    limit(&world, org, "organization", max_jobs).await;
    let mut checks = Vec::new();
    for _ in 0..count {
        checks.push(world.accept_check(org).await);
    }
    let sweeper = Sweeper::new(world.launcher.clone());
    pass(&sweeper).await;
    (world, sweeper, checks)
}

/// A new deployment of another environment runs at once, or within two seconds. It succeeds.
async fn deployment_runs_soon(world: &World, sweeper: &Sweeper, of: Due) {
    let deployment = world.accept(of.org).await;
    for _ in 0..3 {
        pass(sweeper).await;
        if runs(world, deployment).await {
            world.claim(deployment).await;
            return end(world, deployment).await;
        }
        world.clock.by(1);
    }
    panic!("it waits: {:?}", world.read(deployment).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_checks_that_are_due_delay_no_deployment() {
    let (world, sweeper, checks) = checks_due(8, 200).await;
    let most = usize::try_from(MAX_CHECKS_AT_ONCE).unwrap();
    assert_eq!(running(&world, &checks).await.len(), most);
    deployment_runs_soon(&world, &sweeper, checks[0]).await;
    // They follow each other, never more than that at once.
    for _ in 0..3 {
        let before = running(&world, &checks).await;
        assert_eq!(before.len(), most);
        for check in &before {
            world.claim(*check).await;
            end(&world, *check).await;
        }
        world.clock.by(6);
        pass(&sweeper).await;
        deployment_runs_soon(&world, &sweeper, checks[0]).await;
        let after = running(&world, &checks).await;
        assert!(after.iter().all(|check| !before.contains(check)));
    }
    for due in &checks {
        let check = world.read(*due).await;
        if check.status == Status::Queued {
            let said =
                "waiting for one of the 4 slots of the checks for drift by runner `somewhere`";
            assert_eq!(check.message, said);
            assert!(matches!(check.hold, Some(Hold::Limit(_))), "{check:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn checks_leave_one_slot_of_a_limit() {
    for (max_jobs, expected) in [(2, 1), (4, 3), (5, 4)] {
        let (world, sweeper, checks) = checks_due(max_jobs, 8).await;
        assert_eq!(running(&world, &checks).await.len(), expected, "of {max_jobs}");
        for check in &checks {
            let check = world.read(*check).await;
            let reason = &check.message;
            assert!(
                check.status != Status::Queued || reason.starts_with("waiting for one of the"),
                "{reason}"
            );
        }
        let deployment = world.accept(checks[0].org).await;
        pass(&sweeper).await;
        assert!(runs(&world, deployment).await, "in the first pass, with a limit of {max_jobs}");
    }
}

#[tokio::test]
async fn a_limit_of_checks_by_a_runner_replaces_the_usual_one() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let scope = limit(&world, org, "checks:somewhere", 2).await;
    let mut checks = Vec::new();
    for _ in 0..5 {
        checks.push(world.accept_check(org).await);
    }
    let sweeper = Sweeper::new(world.launcher.clone());
    pass(&sweeper).await;
    assert_eq!(running(&world, &checks).await.len(), 2);
    assert_eq!(world.table.held_slots(org, &scope).await.unwrap().len(), 2);
    // It does not cover deployments.
    for _ in 0..3 {
        let deployment = world.accept(org).await;
        world.reconcile(deployment).await;
        assert!(runs(&world, deployment).await);
    }
}

#[tokio::test]
async fn the_check_that_holds_the_only_slot_is_stopped_for_a_deployment() {
    let (world, sweeper, checks) = checks_due(1, 1).await;
    let check = checks[0];
    assert!(runs(&world, check).await);
    world.claim(check).await;
    let deployment = world.accept(check.org).await;
    world.reconcile(deployment).await;
    let waits = world.read(deployment).await;
    assert_eq!(waits.message, "waiting for the one slot of the organization");
    assert!(waits.due_at.unwrap() <= world.clock.now() + std::time::Duration::from_secs(1));
    let stopped = world.read(check).await;
    let stop = stopped.open_attempt().unwrap().stop.clone().unwrap();
    assert_eq!((stopped.status, stop.reason), (Status::Cancelling, StopReason::Overtaken));
    // A second try changes nothing of that.
    world.clock.by(1);
    pass(&sweeper).await;
    assert_eq!(world.read(check).await.open_attempt().unwrap().stop, Some(stop));
    stops(&world, check).await;
    world.clock.by(1);
    pass(&sweeper).await;
    assert!(runs(&world, deployment).await, "{:?}", world.read(deployment).await);
    let ended = world.read(check).await;
    assert_eq!((ended.status, ended.message.as_str()), (Status::Cancelled, OVERTAKEN));
    let drift = world.environment(check).await.drift.unwrap();
    assert_eq!((drift.status, drift.checking), (DriftStatus::Unknown, None));
}

#[tokio::test]
async fn a_check_stops_no_other_check_and_no_deployment() {
    let (world, _, checks) = checks_due(1, 2).await;
    let open = running(&world, &checks).await;
    assert_eq!(open.len(), 1);
    world.claim(open[0]).await;
    world.clock.by(6);
    for check in &checks {
        world.reconcile(*check).await;
    }
    assert_eq!(world.read(open[0]).await.open_attempt().unwrap().stop, None);
    end(&world, open[0]).await;
    let deployment = world.accept(open[0].org).await;
    world.reconcile(deployment).await;
    world.clock.by(6);
    for check in &checks {
        world.reconcile(*check).await;
    }
    assert!(runs(&world, deployment).await);
    assert_eq!(running(&world, &checks).await, []);
}

#[tokio::test]
async fn a_deployment_in_the_environment_of_a_check_runs_at_once_and_ends_the_check() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let check = world.accept_check(org).await;
    world.reconcile(check).await;
    world.claim(check).await;
    let deployment = world.accept_after(check).await;
    assert_eq!(world.environment(check).await.drift.unwrap().checking, Some(check.id));
    world.reconcile(deployment).await;
    assert!(runs(&world, deployment).await);
    let stopped = world.read(check).await;
    let stop = stopped.open_attempt().unwrap().stop.clone();
    assert_eq!(stop.map(|stop| stop.reason), Some(StopReason::Overtaken));
    assert_eq!(world.environment(check).await.drift.unwrap().checking, None);
    // Its end takes nothing from the deployment.
    stops(&world, check).await;
    assert_eq!(world.environment(check).await.queue.head(), Some(deployment.id));
}

#[tokio::test]
async fn a_check_that_waits_is_left_out_when_a_deployment_comes() {
    let world = World::new().await;
    let (org, script) = world.organization("acme").await;
    let check = world.accept_check(org).await;
    world.accept_after(check).await;
    world.reconcile(check).await;
    let ended = world.read(check).await;
    assert_eq!((ended.status, ended.message.as_str()), (Status::Cancelled, OVERTAKEN));
    assert_eq!((ended.attempts.len(), script.count("start")), (0, 0));
    assert_eq!(world.environment(check).await.drift.unwrap().checking, None);
}
