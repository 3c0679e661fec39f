//! A job that died before it could report what its apply left.

use crate::world::World;
use canyon_domain::attempt::Attempt;
use canyon_domain::deadline::Observation;
use canyon_domain::deployment::Deployment;
use canyon_domain::environment_state::{Doubt, StateFacts};
use canyon_domain::failure::Phase;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;

/// OpenTofu has created a resource, and could not write the state.
const EVENTS: &[u8] = br#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.a"},"action":"create"}}
{"@level":"info","type":"apply_complete","hook":{"resource":{"addr":"terraform_data.a"},"action":"create","id_key":"id","id_value":"42"}}
{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to save state"}}
{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to persist state to backend"}}
"#;

/// An attempt that applies.
async fn applying(world: &World, due: Due, change: impl FnOnce(&mut Attempt)) {
    world.tend(due).await;
    world.claim(due).await;
    let mut deployment: Deployment = world.read(due).await;
    let attempt = deployment.attempts.last_mut().unwrap();
    attempt.phase = Phase::Apply;
    change(attempt);
    deployment.version += 1;
    world.table.save_deployment(due.org, &deployment, Wake::Nobody).await.unwrap();
}

#[tokio::test]
async fn a_job_that_died_before_it_reported_an_unwritten_state_leaves_an_environment_that_creates_nothing_twice()
 {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.events.lock().unwrap() = EVENTS.to_vec();
    let due = world.accept(org).await;
    applying(&world, due, |_| {}).await;
    *platform.job.lock().unwrap() = Some(Observation::Gone(None));
    world.clock.by(60);
    world.tend(due).await;

    let ended = world.read(due).await;
    assert_eq!((ended.status.is_terminal(), ended.kept.orphans), (true, 1));
    let environment = world.table.environment(org, &ended.project, &ended.env).await.unwrap();
    let state = environment.unwrap().state.unwrap();
    let unwritten = state.unwritten.unwrap();
    assert_eq!(
        (unwritten.by, unwritten.facts),
        (due.id, None),
        "any state that is found is refused"
    );
    assert_eq!(state.doubt, Some(Doubt::Unfinished(due.id)));
}

#[tokio::test]
async fn what_a_run_reported_of_its_unwritten_state_outlives_it() {
    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    *platform.events.lock().unwrap() = EVENTS.to_vec();
    let due = world.accept(org).await;
    let facts = StateFacts {
        lineage: "a".to_owned(),
        serial: 2,
        resources: 1,
        digest: Some("one".to_owned()),
    };
    let mut deployment = world.read(due).await;
    applying(&world, due, |attempt| {
        deployment.attempts = vec![attempt.clone()];
        assert!(deployment.could_not_write_state(1, Some(facts.clone())));
        *attempt = deployment.attempts[0].clone();
    })
    .await;
    *platform.job.lock().unwrap() = Some(Observation::Gone(None));
    world.clock.by(60);
    world.tend(due).await;

    let ended = world.read(due).await;
    let environment = world.table.environment(org, &ended.project, &ended.env).await.unwrap();
    let unwritten = environment.unwrap().state.unwrap().unwritten.unwrap();
    assert_eq!(unwritten.facts, Some(facts), "a run that finds this state goes on");
}
