//! A runner that was changed after the launch may name another place than that of the job.

use crate::world::World;
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::Status;

const CHANGED: &str = "its runner was changed after the launch";

#[tokio::test]
async fn a_start_is_not_repeated_in_another_place() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    // The answer is lost: the start may have taken effect.
    platform.silent_at(&["start"]);
    let due = world.accept(org).await;
    let launcher = world.launcher.clone();
    let killed = tokio::spawn(async move {
        launcher.reconcile(due, canyon_launcher::ReconcileTrigger::Due).await
    });
    crate::world::until("it starts", || platform.count("start") == 1).await;
    killed.abort();
    platform.silent_at(&[]);

    world.change_runner(org).await;
    world.clock.by(11);
    world.reconcile(due).await;
    let held = world.read(due).await;
    let attempt = held.open_attempt().unwrap();
    assert_eq!(platform.count("start"), 1, "a second job, with the claim code of the first");
    assert!(attempt.waiting.as_ref().unwrap().starts_with(CHANGED), "{attempt:?}");
    assert!(held.due_at.is_some(), "{held:?}");
}

#[tokio::test]
async fn a_start_of_an_unchanged_runner_is_repeated() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    platform.silent_at(&["start"]);
    let due = world.accept(org).await;
    let launcher = world.launcher.clone();
    let killed = tokio::spawn(async move {
        launcher.reconcile(due, canyon_launcher::ReconcileTrigger::Due).await
    });
    crate::world::until("it starts", || platform.count("start") == 1).await;
    killed.abort();
    platform.silent_at(&[]);

    world.clock.by(11);
    world.reconcile(due).await;
    assert_eq!(platform.count("start"), 2);
    let started = world.read(due).await;
    assert_eq!(started.open_attempt().unwrap().handle.as_deref(), Some("a-job"));
}

/// What an administrator changes of the runner during a run.
enum Change {
    None,
    OfPlace,
    OfJobsToCome,
}

/// A running deployment whose runner is silent, so that the launcher asks its platform, which has
/// no job.
async fn silent_run(change: Change) -> (World, canyon_store::deployment_lists::Due) {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.claim(due).await;
    match change {
        Change::None => {}
        Change::OfPlace => world.change_runner(org).await,
        Change::OfJobsToCome => {
            world.change_jobs_to_come(org).await;
            world.change_jobs_to_come(org).await;
        }
    }
    *platform.job.lock().unwrap() = Some(Observation::Gone(None));
    world.clock.by(61);
    world.reconcile(due).await;
    assert_eq!(platform.count("observe"), 1);
    (world, due)
}

#[tokio::test]
async fn a_run_continues_although_its_changed_runner_does_not_find_the_job() {
    let (world, due) = silent_run(Change::OfPlace).await;
    let run = world.read(due).await;
    assert_eq!(run.status, Status::Running);
    assert!(run.open_attempt().is_some() && run.attempts[0].job_gone_at.is_none(), "{run:?}");
    // The runner's silence ends it, and proves nothing about the job.
    for _ in 0..30 {
        world.clock.by(30);
        world.reconcile(due).await;
    }
    let run = world.read(due).await;
    let ended = run.attempts[0].ended.as_ref();
    assert!(ended.is_some() && run.attempts[0].job_gone_at.is_none(), "{run:?}");
}

#[tokio::test]
async fn a_run_whose_job_is_gone_where_it_was_launched_ends_with_the_proof() {
    for change in [Change::None, Change::OfJobsToCome] {
        let (world, due) = silent_run(change).await;
        let attempt = world.read(due).await.attempts.remove(0);
        assert!(attempt.ended.is_some() && attempt.job_gone_at.is_some(), "{attempt:?}");
    }
}
