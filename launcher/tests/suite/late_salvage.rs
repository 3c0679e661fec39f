//! What the launcher reads of a job after its deployment has ended: the job was not proved gone, or its output was away.

use crate::platform::Script;
use crate::salvage::{UNWRITTEN, applying, dies};
use crate::world::{World, passes, until};
use canyon_dispatch::JobRef;
use canyon_domain::deadline::Observation;
use canyon_domain::environment_state::Doubt;
use canyon_domain::unfinished_run::UnfinishedRun;
use canyon_launcher::{ReconcileTrigger, Sweeper};
use canyon_store::blob_keys::BlobKey;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

fn says(platform: &Script, observation: Observation) {
    *platform.job.lock().unwrap() = Some(observation);
}

/// The platform does not answer until the deployment has ended.
async fn ends_without_proof(world: &World, due: Due, platform: &Script) {
    says(platform, Observation::Unknown("it is away".to_owned()));
    for _ in 0..4 {
        world.clock.by(301);
        world.reconcile(due).await;
    }
    assert!(world.read(due).await.status.is_terminal());
}

/// What the next run of the environment is given about the earlier one.
async fn unfinished(world: &World, earlier: Due, next: Due) -> Option<UnfinishedRun> {
    let (environment, run) = (world.environment(next).await, world.read(next).await);
    let storage = environment.module.state.as_ref().unwrap().storage.clone();
    let earlier = world.read(earlier).await;
    environment.state_for_job(&run, &storage, Some(&earlier)).1.unfinished
}

async fn assert_is_salvaged(world: &World, due: Due, platform: &Script) {
    let ended = world.read(due).await;
    assert_eq!((ended.kept.orphans, ended.is_unsalvaged()), (1, false));
    let key = BlobKey::late_orphans(due.org, due.id, 1);
    let orphans = world.launcher.blobs.get(&key).await.unwrap().unwrap();
    let orphans: Value = serde_json::from_slice(&orphans).unwrap();
    assert_eq!(orphans, json!([{ "address": "terraform_data.a", "id": "42" }]));
    let state = world.environment(due).await.module.state.unwrap();
    assert_eq!(state.doubt, Some(Doubt::Unfinished(due.id)));
    assert_eq!(state.unwritten.map(|state| state.by), Some(due.id), "no state is taken for it");
    assert_eq!(platform.count("forget"), 1);
}

#[tokio::test]
async fn what_a_job_left_is_read_when_it_is_proved_gone_after_the_deployments_end() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    ends_without_proof(&world, due, &platform).await;
    assert!(world.read(due).await.to_salvage().is_some());
    assert_eq!(platform.count("forget"), 0, "the evidence stays where it is");
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    says(&platform, Observation::Gone(None));
    world.reconcile(due).await;
    assert_is_salvaged(&world, due, &platform).await;
    world.launcher.reconcile(due, ReconcileTrigger::Ended).await.unwrap();
    assert_eq!(platform.count("tail"), 3, "once: each stream to its end");
}

#[tokio::test]
async fn of_two_readings_at_once_the_first_to_be_saved_counts() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    ends_without_proof(&world, due, &platform).await;
    says(&platform, Observation::Gone(None));
    // The first to read finds no events, and is slow.
    platform.silent_at(&["tail of log"]);
    let launcher = world.launcher.clone();
    let slow = tokio::spawn(async move { launcher.reconcile(due, ReconcileTrigger::Ended).await });
    until("it has read no events", || platform.count("tail of log") > 0).await;
    platform.silent_at(&[]);
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    world.reconcile(due).await;
    assert_is_salvaged(&world, due, &platform).await;
    while !slow.is_finished() {
        passes(Duration::from_secs(1)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    slow.await.unwrap().unwrap();
    let state = world.environment(due).await.module.state.unwrap();
    assert_eq!(state.unwritten.map(|state| state.by), Some(due.id), "the second has found nothing");
    assert_eq!(world.read(due).await.kept.orphans, 1);
}

#[tokio::test]
async fn a_laptop_reads_what_a_job_left_that_outlived_its_deployment_before_it_removes_it() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    ends_without_proof(&world, due, &platform).await;
    let sweeper = Sweeper::new(world.launcher.clone());
    let job = JobRef { deployment: due.id, attempt: 1, handle: None };
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    says(&platform, Observation::Gone(None));
    let mut tasks = JoinSet::new();
    assert!(sweeper.job_gone(due.org, &job, &mut tasks).await.unwrap(), "the sweeper removes it");
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_is_salvaged(&world, due, &platform).await;
    assert!(!sweeper.job_gone(due.org, &job, &mut tasks).await.unwrap(), "it may be removed");
}

#[tokio::test]
async fn the_next_launch_of_the_environment_reads_what_an_unfinished_job_left() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    ends_without_proof(&world, due, &platform).await;
    let next = world.accept_after(due).await;
    world.reconcile(next).await;
    let run = Some(UnfinishedRun { by: due.id, unsalvaged: true });
    assert_eq!(
        unfinished(&world, due, next).await,
        run,
        "its run must not take the state for whole"
    );
    // The runner of that run has refused the state, and the platform is back.
    says(&platform, Observation::Gone(None));
    world.clock.by(3_000);
    world.reconcile(next).await;
    assert!(world.read(next).await.status.is_terminal());
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    let third = world.accept_after(due).await;
    let forgotten = platform.count("forget");
    world.reconcile(third).await;
    let state = world.environment(third).await.module.state.unwrap();
    assert_eq!(state.unwritten.map(|state| state.by), Some(due.id));
    assert_eq!(platform.count("forget"), forgotten + 1);
    let run = Some(UnfinishedRun { by: due.id, unsalvaged: false });
    assert_eq!(unfinished(&world, due, third).await, run);
}

#[tokio::test]
async fn events_that_the_platform_does_not_return_at_first_are_read_later() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    *platform.loses_output.lock().unwrap() = true;
    dies(&world, due, &platform).await;
    let ended = world.read(due).await;
    assert!(ended.status.is_terminal() && ended.is_unsalvaged());
    assert_eq!(platform.count("forget"), 0);
    *platform.loses_output.lock().unwrap() = false;
    world.clock.by(11);
    world.reconcile(due).await;
    assert_is_salvaged(&world, due, &platform).await;
}

#[tokio::test]
async fn a_platform_to_which_the_runner_was_changed_since_does_not_prove_that_a_job_left_nothing() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    *platform.loses_output.lock().unwrap() = true;
    dies(&world, due, &platform).await;
    assert!(world.read(due).await.to_salvage().is_some());
    world.change_runner(due.org).await;
    *platform.loses_output.lock().unwrap() = false;
    world.clock.by(11);
    world.reconcile(due).await;
    assert!(world.read(due).await.to_salvage().is_some(), "its own platform may have the events");
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    world.clock.by(11);
    world.reconcile(due).await;
    assert_is_salvaged(&world, due, &platform).await;
}

#[tokio::test]
async fn a_platform_without_output_leaves_no_doubt_about_a_run_that_was_reporting_until_its_end() {
    for (silence, is_unsalvaged) in [(20, false), (61, true)] {
        let world = World::new().await;
        let (due, platform) = applying(&world, (0, 0)).await;
        says(&platform, Observation::Gone(None));
        world.clock.by(silence);
        world.launcher.reconcile(due, ReconcileTrigger::JobGone).await.unwrap();
        let ended = world.read(due).await;
        assert!(ended.status.is_terminal());
        assert_eq!(ended.is_unsalvaged(), is_unsalvaged, "after {silence} s");
        assert_eq!(platform.count("forget"), 1, "there is nothing to keep");
    }
}

#[tokio::test]
async fn a_platform_that_does_not_return_a_jobs_output_holds_up_the_end_for_less_than_a_function_lives()
 {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    says(&platform, Observation::Gone(None));
    platform.silent_at(&["tail"]);
    world.clock.by(61);
    let launcher = world.launcher.clone();
    let ends = tokio::spawn(async move { launcher.reconcile(due, ReconcileTrigger::Due).await });
    until("it asks for the output", || platform.count("tail") > 0).await;
    let mut seconds = 0;
    while !ends.is_finished() {
        passes(Duration::from_secs(1)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        seconds += 1;
        assert!(seconds < 40, "it does not end");
    }
    ends.await.unwrap().unwrap();
    let ended = world.read(due).await;
    assert!(ended.status.is_terminal() && ended.to_salvage().is_some());
    assert_eq!(platform.count("forget"), 0);
}

#[tokio::test]
async fn a_hint_that_a_job_is_gone_is_not_lost_with_a_race() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    says(&platform, Observation::Gone(None));
    platform.silent_at(&["observe"]);
    let launcher = world.launcher.clone();
    let work =
        tokio::spawn(async move { launcher.reconcile(due, ReconcileTrigger::JobGone).await });
    until("it observes the job", || platform.count("observe") > 0).await;
    platform.silent_at(&[]);
    // A heartbeat, after which nothing is due for a minute.
    let mut alive = world.read(due).await;
    alive.version += 1;
    let saved = world.launcher.table.save_deployment(due.org, &alive, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    while !work.is_finished() {
        passes(Duration::from_secs(1)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    work.await.unwrap().unwrap();
    assert!(world.read(due).await.status.is_terminal());
}
