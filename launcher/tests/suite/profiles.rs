//! For each deployment, a runner of an agent's kind uses the profile that its `profile` evaluates
//! to.

use crate::platform::Script;
use crate::world::{RUNNER, World, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::change::Change;
use canyon_domain::deployment::Status;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::OrgUuid;
use canyon_domain::ports::Clock as _;
use canyon_domain::runner::agents::ProfileName;
use canyon_domain::runner_profile::{ProfileSettings, RunnerProfile};
use canyon_store::outcome::{Created, Deleted, Saved};
use serde_json::{Value, json};
use std::sync::Arc;

const PROFILE: &str = "testing/eu";

/// An organization whose runner chooses a profile by the type of the environment and a variable.
async fn organization(world: &World) -> (OrgUuid, Arc<Script>) {
    organization_with(world, "${environment.type}/${var.region}").await
}

async fn organization_with(world: &World, profile: &str) -> (OrgUuid, Arc<Script>) {
    let (org, platform) = world.organization("acme").await;
    let mut runner = world.table.runner(org, &RUNNER.parse().unwrap()).await.unwrap().unwrap();
    runner.version += 1;
    "docker-agent".clone_into(&mut runner.runner_type);
    runner.definition = json!({
        "runner_configuration": {
            "type": "docker-agent",
            "profile": profile,
            "agents": { "ids": ["a1"] },
            "job": { "image": "canyon-runner:1", "memory_limit": 512 },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    })
    .to_string();
    let saved = world.table.save_runner(org, &runner, None, &record()).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    (org, platform)
}

async fn make(world: &World, org: OrgUuid, job: Value) {
    let Value::Object(job) = job else { panic!("{job}") };
    let agents = Some(json!({ "labels": { "region": "eu" } }));
    let now = world.clock.now();
    let profile = RunnerProfile {
        id: PROFILE.parse().unwrap(),
        description: None,
        settings: ProfileSettings::parse(agents, job).unwrap(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let made = world.table.create_runner_profile(org, &profile, &record()).await.unwrap();
    assert_eq!(made, Created::Yes);
}

#[tokio::test]
async fn a_job_is_launched_with_the_settings_of_its_profile() {
    let world = World::new().await;
    let (org, platform) = organization(&world).await;
    make(&world, org, json!({ "memory_limit": 4096 })).await;
    let due = world.accept_with(org, json!({ "region": "eu" })).await;
    world.reconcile(due).await;
    assert_eq!(platform.count("start"), 1);
    let used = platform.definition.lock().unwrap().clone().unwrap();
    let used = &used["runner_configuration"];
    assert_eq!(used["job"], json!({ "image": "canyon-runner:1", "memory_limit": 4096 }));
    assert_eq!(used["agents"], json!({ "labels": { "region": "eu" } }));
}

#[tokio::test]
async fn a_project_names_the_profile_of_a_runner_that_asks_it() {
    let world = World::new().await;
    let (org, platform) = organization_with(&world, "${project.profile}").await;
    make(&world, org, json!({ "memory_limit": 4096 })).await;
    let due = world.accept_with(org, json!({ "region": "eu" })).await;
    let project = world.read(due).await.project;
    let name: ProfileName = "${env_type.id}/${var.region}".parse().unwrap();
    let named =
        world.table.change_project(org, &project, None, Change::Set(&name), &record()).await;
    assert_eq!(named.unwrap(), Saved::Yes);
    world.reconcile(due).await;
    assert_eq!(platform.count("start"), 1);
    let used = platform.definition.lock().unwrap().clone().unwrap();
    assert_eq!(used["runner_configuration"]["job"]["memory_limit"], json!(4096));
}

#[tokio::test]
async fn a_project_that_names_no_profile_fails_on_a_runner_that_asks_it() {
    let world = World::new().await;
    let (org, platform) = organization_with(&world, "${project.profile}").await;
    let due = world.accept_with(org, json!({ "region": "eu" })).await;
    world.reconcile(due).await;
    let ended = world.read(due).await;
    let end = ended.attempts[0].ended.as_ref().unwrap();
    let Outcome::Failed(failure) = &end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.class, FailureClass::Config);
    assert!(
        failure.message.contains("names none; set one with: canyon update project"),
        "{failure:?}"
    );
    assert_eq!(platform.count("start"), 0);
}

#[tokio::test]
async fn a_profile_that_cannot_be_used_ends_the_deployment_with_its_name() {
    for (variables, job, expected) in [
        (
            json!({ "region": "eu" }),
            None,
            "uses the profile `testing/eu` for this deployment, but that profile does not exist",
        ),
        (
            json!({ "region": "${context.env_type.id}" }),
            None,
            "uses the profile `testing/testing` for this deployment, but that profile does not exist",
        ),
        (json!({ "region": "../x" }), None, "uses the profile `testing/../x` for this deployment"),
        (json!({}), None, "needs the variable `region`, which this deployment does not set"),
        (
            json!({ "region": "eu" }),
            Some(json!({ "cpu": 1024, "memory": 4096 })),
            "the profile `testing/eu` does not fit runner `somewhere`: `job.cpu` is not a known",
        ),
    ] {
        let world = World::new().await;
        let (org, platform) = organization(&world).await;
        if let Some(job) = job {
            make(&world, org, job).await;
        }
        let due = world.accept_with(org, variables).await;
        world.reconcile(due).await;
        let ended = world.read(due).await;
        assert_eq!((ended.status, ended.attempts.len()), (Status::Failed, 1), "{ended:?}");
        let end = ended.attempts[0].ended.as_ref().unwrap();
        let Outcome::Failed(failure) = &end.outcome else { panic!("{end:?}") };
        assert_eq!(failure.class, FailureClass::Config);
        assert!(failure.message.contains(expected), "{failure:?}");
        assert_eq!(platform.count("start"), 0);
    }
}

#[tokio::test]
async fn a_running_job_is_observed_although_its_profile_was_deleted() {
    let world = World::new().await;
    let (org, platform) = organization(&world).await;
    make(&world, org, json!({ "memory_limit": 4096 })).await;
    let due = world.accept_with(org, json!({ "region": "eu" })).await;
    world.reconcile(due).await;
    world.claim(due).await;
    let id = PROFILE.parse().unwrap();
    let deleted = world.table.delete_runner_profile(org, &id, &record()).await.unwrap();
    assert_eq!(deleted, Deleted::Yes);
    world.clock.by(61);
    world.reconcile(due).await;
    assert_eq!(platform.count("observe"), 1);
    assert_eq!(world.read(due).await.status, Status::Running);
}
