//! What is different for container jobs: their limits, when they are not repeated, and which runners take them.

use crate::platform::Script;
use crate::world::{World, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::{Deployment, Mode, Status};
use canyon_domain::environment_state::EnvironmentState;
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::{Environment, EnvironmentStatus};
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_domain::resource::ResourceStatus;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use serde_json::{Value, json};
use std::sync::Arc;

const ENGINE: &str = "engine";

fn job() -> Value {
    json!({ "image": "ghcr.io/acme/bucket:1", "command": ["/opt/bucket"] })
}

fn job_with(name: &str, value: Value) -> Value {
    let mut job = job();
    job[name] = value;
    job
}

async fn with_engine(settings: Value) -> (World, OrgUuid, Arc<Script>) {
    let world = World::new().await;
    let (org, script) = world.organization("acme").await;
    world.engine(org, ENGINE, settings).await;
    (world, org, script)
}

async fn reconciled(world: &World, due: Due) -> Deployment {
    world.reconcile(due).await;
    world.read(due).await
}

/// Its runner has claimed, and its job vanishes in `phase`.
async fn dies_in(world: &World, due: Due, phase: Phase, script: &Script) -> Deployment {
    world.claim(due).await;
    let mut deployment = world.read(due).await;
    deployment.attempts.last_mut().unwrap().phase = phase;
    deployment.version += 1;
    let saved = world.table.save_deployment(due.org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    *script.job.lock().unwrap() = Some(Observation::Gone(None));
    world.clock.by(61);
    let after = reconciled(world, due).await;
    *script.job.lock().unwrap() = None;
    after
}

/// Changes a deployment and its environment in one step.
async fn change(world: &World, due: Due, what: impl FnOnce(&mut Deployment, &mut Environment)) {
    let (mut deployment, mut environment) = (world.read(due).await, world.environment(due).await);
    what(&mut deployment, &mut environment);
    deployment.version += 1;
    environment.version += 1;
    let step = DeploymentChange {
        deployment: &deployment,
        environment: EnvironmentChange::Save(&environment),
        next: None,
        wake: Wake::None,
        record: None,
    };
    assert_eq!(world.table.change_deployment(due.org, &step).await.unwrap(), Saved::Yes);
}

async fn status_of_resource(world: &World, due: Due) -> Option<ResourceStatus> {
    let environment = world.environment(due).await;
    environment.resources.iter().next().map(|resource| resource.status)
}

#[tokio::test]
async fn a_program_that_began_is_not_run_again_after_its_job_is_lost() {
    let (world, org, script) = with_engine(json!({})).await;
    let due = world.accept_container(org, job(), ENGINE, &[]).await;
    assert_eq!(reconciled(&world, due).await.status, Status::Launching);
    assert_eq!(status_of_resource(&world, due).await, Some(ResourceStatus::Creating));
    let ended = dies_in(&world, due, Phase::Apply, &script).await;
    assert_eq!((ended.status, ended.attempts.len()), (Status::Failed, 1), "{}", ended.message);
    world.clock.by(3_600);
    assert_eq!(reconciled(&world, due).await.attempts.len(), 1);
    assert_eq!(script.count("start"), 1);
    // It may have made something, and that is the resource's and not the module's.
    assert_eq!(status_of_resource(&world, due).await, Some(ResourceStatus::Failed));
    let environment = world.environment(due).await;
    assert_eq!((environment.module.applied, environment.module.last_success), (None, None));
    assert_eq!(environment.module.unfinished(), None, "no state is in doubt");
    assert_eq!(environment.module.state, None::<EnvironmentState>);
    assert!(environment.queue.is_idle());
}

#[tokio::test]
async fn a_job_that_is_lost_before_its_program_begins_is_launched_again() {
    let (world, org, script) = with_engine(json!({})).await;
    let due = world.accept_container(org, job(), ENGINE, &[]).await;
    world.reconcile(due).await;
    let waits = dies_in(&world, due, Phase::Init, &script).await;
    assert_eq!(waits.status, Status::Launching, "{}", waits.message);
    world.clock.by(600);
    assert_eq!(reconciled(&world, due).await.attempts.len(), 2);
    assert_eq!(script.count("start"), 2);
    assert_eq!(status_of_resource(&world, due).await, Some(ResourceStatus::Creating));
}

#[tokio::test]
async fn an_idempotent_program_runs_again_after_its_job_is_lost() {
    let (world, org, script) = with_engine(json!({})).await;
    let job = job_with("idempotent", json!(true));
    let due = world.accept_container(org, job, ENGINE, &[]).await;
    world.reconcile(due).await;
    let waits = dies_in(&world, due, Phase::Apply, &script).await;
    assert_eq!(waits.status, Status::Launching, "{}", waits.message);
    world.clock.by(600);
    let again = reconciled(&world, due).await;
    assert_eq!((again.attempts.len(), again.status), (2, Status::Launching));
    assert_eq!(script.count("start"), 2);
}

#[tokio::test]
async fn a_container_job_has_its_own_time_within_that_of_its_runner() {
    let limits = async |settings: Value, job: Value| {
        let (world, org, _) = with_engine(settings).await;
        let due = world.accept_container(org, job, ENGINE, &[]).await;
        let launched = reconciled(&world, due).await;
        let limits = launched.attempts[0].limits;
        (limits.start, limits.run, limits.stop)
    };
    let own =
        json!({ "timeouts": { "start_seconds": 90, "run_seconds": 600, "stop_seconds": 20 } });
    let with = |timeout: u32, grace: u32| {
        let mut job = job_with("timeout_seconds", json!(timeout));
        job["grace_seconds"] = json!(grace);
        job
    };
    // 60 s for its files before it, and 10 s for its result after it.
    assert_eq!(limits(own.clone(), with(100, 30)).await, (90, 60 + 100 + 30 + 10, 40));
    assert_eq!(limits(own, with(600, 300)).await, (90, 600, 310));
    assert_eq!(limits(json!({}), with(10, 0)).await, (300, 80, 10));
    // Without limits of either, a program has an hour and a minute to stop.
    assert_eq!(limits(json!({}), job()).await, (300, 3_600, 70));
}

#[tokio::test]
async fn a_fallback_that_runs_no_container_jobs_is_passed_over() {
    let (world, org, _) = with_engine(json!({})).await;
    world.engine(org, "strict", json!({ "allowed_images": ["ghcr.io/other/*"] })).await;
    world.engine(org, "spare", json!({ "allowed_images": ["ghcr.io/acme/*"] })).await;
    let own = ENGINE.parse().unwrap();
    let saved = world.table.set_runner_disabled(org, &own, true, &record()).await.unwrap();
    assert_eq!(saved, Saved::Yes);

    // `somewhere` is of type `local`.
    let fallbacks = ["somewhere", "strict", "spare"];
    let due = world.accept_container(org, job(), ENGINE, &fallbacks).await;
    let launched = reconciled(&world, due).await;
    assert_eq!((launched.status, launched.runner.as_str()), (Status::Launching, "spare"));
    let reason = &launched.fallback.as_ref().unwrap().reason;
    for expected in [
        "runner `engine` is disabled",
        "runner `somewhere` is of type `local`, which runs no container jobs",
        "runner `strict` does not allow the image `ghcr.io/acme/bucket:1`",
    ] {
        assert!(reason.contains(expected), "{expected}: {reason}");
    }

    let due = world.accept_container(org, job(), ENGINE, &fallbacks[..2]).await;
    let waits = reconciled(&world, due).await;
    assert_eq!((waits.status, waits.runner.as_str()), (Status::Queued, ENGINE));
    assert_eq!(waits.fallback, None);
}

#[tokio::test]
async fn a_runner_that_changed_since_the_request_ends_the_deployment_with_its_reason() {
    let (world, org, script) = with_engine(json!({ "allowed_images": [] })).await;
    let due = world.accept_container(org, job(), ENGINE, &[]).await;
    let ended = reconciled(&world, due).await;
    assert_eq!(ended.status, Status::Failed);
    assert!(ended.message.contains("does not allow the image"), "{}", ended.message);
    assert_eq!(script.count("start"), 0);
    let failure = ended.attempts.last().and_then(|attempt| attempt.ended.clone());
    let class = failure.map(|ended| match ended.outcome {
        Outcome::Failed(failure) => failure.class,
        other => panic!("{other:?}"),
    });
    assert_eq!(class, Some(FailureClass::Config));
    assert_eq!(status_of_resource(&world, due).await, None, "nothing began");
}

#[tokio::test]
async fn a_destroy_run_of_a_deletion_that_was_cut_off_starts_nothing_and_says_so() {
    let (world, org, script) = with_engine(json!({})).await;
    let due = world.accept_container(org, job(), ENGINE, &[]).await;
    change(&world, due, |deployment, environment| {
        (deployment.mode, deployment.of_removal) = (Mode::Destroy, true);
        environment.status = EnvironmentStatus::Deleting;
    })
    .await;

    assert_eq!(
        reconciled(&world, due).await.status,
        Status::Queued,
        "the last run is not accepted"
    );
    world.clock.by(121);
    let ended = reconciled(&world, due).await;
    assert_eq!(ended.status, Status::Failed);
    assert!(ended.message.contains("was interrupted before it was complete"), "{}", ended.message);
    assert_eq!(script.count("start"), 0);
    assert_eq!(world.environment(due).await.status, EnvironmentStatus::DeleteFailed);
}

#[tokio::test]
async fn the_container_of_a_failed_job_is_not_removed_before_its_time() {
    let (world, org, script) = with_engine(json!({})).await;
    let keeps = job_with("keep_seconds", json!(300));
    let due = world.accept_container(org, keeps, ENGINE, &[]).await;
    world.reconcile(due).await;
    world.claim(due).await;
    let mut deployment = world.read(due).await;
    let now = world.clock.now();
    let failure = Failure::new(FailureClass::User, "EXIT_CODE: exit code 3");
    lifecycle::end(&mut deployment, 1, Outcome::Failed(failure), now).unwrap();
    deployment.version += 1;
    let ended = world.table.end_deployment(org, &deployment, now, None).await.unwrap();
    assert_eq!(ended, Saved::Yes);

    let before = script.count("forget");
    world.clock.by(200);
    world.reconcile(due).await;
    assert_eq!(script.count("forget"), before, "people look into it");
    world.clock.by(101);
    world.reconcile(due).await;
    assert!(script.count("forget") > before);
}

#[tokio::test]
async fn a_job_of_another_kind_than_its_resource_ends_without_a_start() {
    let (world, org, script) = with_engine(json!({})).await;
    let due = world.accept_container(org, job(), ENGINE, &[]).await;
    // One before it in the queue was a module for the same resource.
    change(&world, due, |deployment, environment| {
        let resource = deployment.resource().cloned().map(Box::new);
        let module = Deployment { container: None, resource, ..deployment.clone() };
        environment.record_launch(&module);
    })
    .await;
    let ended = reconciled(&world, due).await;
    assert_eq!(ended.status, Status::Failed);
    assert!(ended.message.contains("was made by an OpenTofu module"), "{}", ended.message);
    assert_eq!(script.count("start"), 0);
}
