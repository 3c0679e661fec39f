//! The cleanup after the end of a deployment: as often as needed, and no more.

use crate::concurrency::end;
use crate::platform::Script;
use crate::world::{World, passes, until};
use async_trait::async_trait;
use canyon_dispatch::JobRef;
use canyon_domain::attempt::Outcome;
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::events::DeploymentEvent;
use canyon_domain::ids::OrgUuid;
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_launcher::publish::Publish;
use canyon_launcher::{LaunchError, REMOVAL_RETRY_PAUSE, ReconcileTrigger, Sweeper};
use canyon_store::deployment_lists::Due;
use canyon_store::error::BoxError;
use canyon_store::outcome::Saved;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Lets a run be silent until it is asked to stop, killed, and given up.
async fn ends(world: &World, due: Due) -> Deployment {
    for _ in 0..30 {
        world.clock.by(30);
        world.reconcile(due).await;
        let deployment = world.read(due).await;
        if deployment.status.is_terminal() {
            return deployment;
        }
    }
    panic!("it does not end: {:?}", world.read(due).await);
}

pub(crate) async fn running(world: &World, org: OrgUuid) -> Due {
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.claim(due).await;
    due
}

/// Advances the time by `REMOVAL_RETRY_PAUSE` until the platform was asked `times` times.
async fn asked(platform: &Script, times: usize) {
    let begin = Instant::now();
    while platform.count("forget") < times {
        assert!(begin.elapsed() < Duration::from_secs(30), "no task waits for the job");
        passes(REMOVAL_RETRY_PAUSE).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_task_that_waits_for_a_job_only_asks_for_the_job() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let due = running(&world, org).await;
    *platform.removals_until_gone.lock().unwrap() = 10;
    ends(&world, due).await;
    let before = ["runner", "observe", "jobs"].map(|call| platform.count(call));
    assert_eq!(platform.count("forget"), 1);
    asked(&platform, 9).await;
    assert_eq!(["runner", "observe", "jobs"].map(|call| platform.count(call)), before);
    assert!(world.read(due).await.attempts[0].job_gone_at.is_none());

    // Once the job is gone, the task ends, and the missing proof is recorded.
    *platform.job.lock().unwrap() = Some(Observation::Gone(None));
    asked(&platform, 11).await;
    let begin = Instant::now();
    while world.read(due).await.attempts[0].job_gone_at.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it is not proved");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let [runner, observe, jobs] = before;
    let after = ["runner", "observe", "jobs", "forget"].map(|call| platform.count(call));
    assert_eq!(after, [runner + 1, observe + 1, jobs, 11]);
    passes(REMOVAL_RETRY_PAUSE * 3).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(platform.count("forget"), 11, "the task continues for nothing");
}

#[tokio::test]
async fn the_job_of_a_successful_deployment_is_removed_once_its_end_is_published() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let due = running(&world, org).await;
    end(&world, due).await;
    let (sweeper, mut tasks) = (Sweeper::new(world.launcher.clone()), JoinSet::new());
    sweeper.pass(&mut tasks).await.unwrap();
    tasks.join_all().await;
    assert_eq!(platform.count("forget"), 0, "it is not due, so no pass finds it");

    // The job exits a moment after its result.
    *platform.removals_until_gone.lock().unwrap() = 2;
    let mut tasks = JoinSet::new();
    sweeper.clean_up_ended(due, None, &mut tasks);
    tasks.join_all().await;
    assert_eq!(platform.count("forget"), 1, "and no slot is held meanwhile");
    asked(&platform, 3).await;
    assert_eq!(world.read(due).await.status, Status::Succeeded);
    assert_eq!(platform.count("stop"), 0);
}

#[tokio::test]
async fn a_job_that_does_not_exit_after_its_end_is_looked_at_a_few_times() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let due = running(&world, org).await;
    end(&world, due).await;
    *platform.removals_until_gone.lock().unwrap() = 100;
    world.launcher.reconcile(due, ReconcileTrigger::EndPublished).await.unwrap();
    // At once, and after 0.1, 0.3, 0.7, 1.5 and 2 s.
    assert_eq!(platform.count("forget"), 6);
}

#[tokio::test]
async fn an_orphaned_job_is_ended_after_a_later_end_and_a_job_that_has_just_ended_is_not() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    let left = running(&world, org).await;
    end(&world, left).await;
    *platform.jobs.lock().unwrap() =
        vec![JobRef { deployment: left.id, attempt: 1, handle: Some("a-job".to_owned()) }];
    let sweeper = Sweeper::new(world.launcher.clone());
    for (minutes, stops) in [(5, 0), (11, 1)] {
        world.clock.by(60 * minutes);
        let due = running(&world, org).await;
        end(&world, due).await;
        let mut tasks = JoinSet::new();
        sweeper.clean_up_ended(due, None, &mut tasks);
        tasks.join_all().await;
        assert_eq!(platform.count("stop"), stops, "after {minutes} more minutes");
    }
    // An end by Canyon itself may have left an orphaned job, which is searched for at once.
    let lists = platform.count("jobs");
    *platform.refuses.lock().unwrap() = true;
    let refused = world.accept(org).await;
    world.reconcile(refused).await;
    assert_eq!(platform.count("jobs"), lists + 1);
}

#[tokio::test]
async fn a_list_of_jobs_that_is_never_answered_delays_no_end() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.refuses.lock().unwrap() = true;
    platform.silent_at(&["jobs"]);
    let due = world.accept(org).await;
    let launcher = world.launcher.clone();
    let task = tokio::spawn(async move { launcher.reconcile(due, ReconcileTrigger::Due).await });
    until("the list is asked for", || *platform.open.lock().unwrap() == 1).await;
    assert_eq!(world.read(due).await.status, Status::Failed);
    passes(Duration::from_secs(11)).await;
    task.await.unwrap().unwrap();
    assert_eq!(platform.count("forget"), 1);
}

#[tokio::test]
async fn orphaned_jobs_are_ended_within_a_time_limit_however_many_there_are() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.refuses.lock().unwrap() = true;
    let first = world.accept(org).await;
    world.reconcile(first).await;
    assert_eq!((platform.count("jobs"), platform.count("stop")), (1, 0));

    // Its job was created nevertheless. If no stop is answered, a hundred jobs take too long.
    let orphaned = JobRef { deployment: first.id, attempt: 1, handle: None };
    *platform.jobs.lock().unwrap() = vec![orphaned.clone(); 100];
    platform.silent_at(&["stop"]);
    world.clock.by(601);
    let second = world.accept(org).await;
    let launcher = world.launcher.clone();
    let task = tokio::spawn(async move { launcher.reconcile(second, ReconcileTrigger::Due).await });
    until("it is stopped", || *platform.open.lock().unwrap() == 1).await;
    passes(Duration::from_secs(31)).await;
    task.await.unwrap().unwrap();
    assert_eq!(world.read(second).await.status, Status::Failed);
    let stopped = platform.count("stop");
    assert!(stopped <= 2, "{stopped} stops, one after the other");

    // A platform that answers ends the job at the next search.
    *platform.jobs.lock().unwrap() = vec![orphaned];
    platform.silent_at(&[]);
    world.clock.by(601);
    let third = world.accept(org).await;
    world.reconcile(third).await;
    assert_eq!(platform.count("stop"), stopped + 1);
}

/// A bus that accepts nothing until it is repaired.
#[derive(Clone, Default)]
struct Broken {
    works: Arc<AtomicBool>,
    taken: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Publish for Broken {
    async fn publish(&self, events: &[DeploymentEvent]) -> Result<(), BoxError> {
        if !self.works.load(Ordering::Relaxed) {
            return Err("the bus accepted none of them".into());
        }
        let ids = events.iter().map(|event| event.id.clone());
        self.taken.lock().unwrap().extend(ids);
        Ok(())
    }
}

#[tokio::test]
async fn an_end_that_the_bus_did_not_accept_is_published_later_and_then_once() {
    let mut world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let bus = Broken::default();
    world.launcher.table = world.table.clone().with_published_ends();
    world.launcher.publisher = Some(Arc::new(bus.clone()));
    let due = running(&world, org).await;
    let mut deployment = world.read(due).await;
    lifecycle::end(&mut deployment, 1, Outcome::Succeeded, world.clock.now()).unwrap();
    deployment.version += 1;
    let (table, now) = (&world.launcher.table, world.clock.now());
    assert_eq!(table.end_deployment(org, &deployment, now, None).await.unwrap(), Saved::Yes);

    for _ in 0..2 {
        world.clock.by(600);
        let error = world.launcher.reconcile(due, ReconcileTrigger::Due).await.unwrap_err();
        assert!(matches!(error, LaunchError::Publish { .. }), "{error}");
        assert!(world.read(due).await.due_at.is_some(), "its end is still to be published");
    }
    bus.works.store(true, Ordering::Relaxed);
    world.clock.by(600);
    world.reconcile(due).await;
    assert_eq!(world.read(due).await.due_at, None, "nothing is left to be published");
    let taken = bus.taken.lock().unwrap().clone();
    let each: BTreeSet<_> = taken.iter().collect();
    assert!(!taken.is_empty() && each.len() == taken.len(), "each event once: {taken:?}");
    // The end comes last, and a repetition would have the same id.
    let history = DeploymentEvent::history(&"acme".parse().unwrap(), &world.read(due).await);
    let expected: Vec<_> = history.iter().map(|event| event.id.clone()).collect();
    assert_eq!(taken, expected);
}
