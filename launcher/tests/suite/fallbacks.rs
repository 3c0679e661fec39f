//! A fallback takes a deployment when the environment's own runner cannot.

use crate::concurrency::limit;
use crate::platform::Script;
use crate::world::{RUNNER, World, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::OrgUuid;
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_domain::waiting::Hold;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;
use serde_json::json;
use std::sync::Arc;

const ABSENT: &str = "waiting for an agent of runner `somewhere`: none has ever connected";

/// An organization with the runners `somewhere`, `near` and `far`, which keep states at one place.
async fn three() -> (World, OrgUuid, Arc<Script>) {
    let world = World::new().await;
    let (org, script) = world.organization("acme").await;
    for id in ["near", "far"] {
        world.runner(org, id, "/srv/state").await;
    }
    (world, org, script)
}

async fn accepted(world: &World, org: OrgUuid) -> Due {
    world.accept_on(org, json!({}), &["near", "far"]).await
}

async fn disable(world: &World, org: OrgUuid, id: &str) {
    let id = id.parse().unwrap();
    let saved = world.table.set_runner_disabled(org, &id, true, &record()).await.unwrap();
    assert_eq!(saved, Saved::Yes);
}

async fn reconciled(world: &World, due: Due) -> Deployment {
    world.reconcile(due).await;
    world.read(due).await
}

fn reason(of: &Deployment) -> &str {
    let fallback = of.fallback.as_ref().unwrap();
    assert_eq!(fallback.instead_of.as_str(), RUNNER);
    &fallback.reason
}

#[tokio::test]
async fn the_first_fallback_that_can_takes_the_deployment_and_keeps_it() {
    let (world, org, script) = three().await;
    script.absence.lock().unwrap().insert(RUNNER, ABSENT.to_owned());
    disable(&world, org, "near").await;
    let due = accepted(&world, org).await;
    let launched = reconciled(&world, due).await;
    assert_eq!((launched.status, launched.runner.as_str()), (Status::Launching, "far"));
    assert_eq!(reason(&launched), format!("{ABSENT}; runner `near` is disabled"));
    let far = world.table.runner(org, &"far".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(launched.attempts[0].runner_version, Some(far.version));

    // The next attempt needs the platform of the first, although the own runner has an agent again.
    script.absence.lock().unwrap().clear();
    let mut deployment = launched;
    let lost = Outcome::Failed(Failure::new(FailureClass::Lost, "gone"));
    lifecycle::end(&mut deployment, 1, lost, world.clock.now()).unwrap();
    deployment.version += 1;
    let saved = world.table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    world.clock.by(600);
    let again = reconciled(&world, due).await;
    assert_eq!((again.attempts.len(), again.runner.as_str()), (2, "far"));
}

#[tokio::test]
async fn the_own_runner_takes_a_deployment_whenever_it_can() {
    let (world, org, script) = three().await;
    script.absence.lock().unwrap().insert("near", "absent".to_owned());
    let due = accepted(&world, org).await;
    let launched = reconciled(&world, due).await;
    assert_eq!((launched.status, launched.runner.as_str()), (Status::Launching, RUNNER));
    assert_eq!(launched.fallback, None);
    assert_eq!(script.count("absence"), 1, "no fallback is asked");
}

#[tokio::test]
async fn a_deployment_that_no_runner_can_take_waits_for_the_first_that_can() {
    let (world, org, script) = three().await;
    for (id, why) in [(RUNNER, ABSENT), ("near", "near is away"), ("far", "far is away")] {
        script.absence.lock().unwrap().insert(id, why.to_owned());
    }
    let due = accepted(&world, org).await;
    let waits = reconciled(&world, due).await;
    assert_eq!((waits.status, waits.hold.as_ref()), (Status::Queued, Some(&Hold::Agent)));
    assert_eq!(waits.message, format!("{ABSENT}; near is away; far is away"));
    assert_eq!((waits.runner.as_str(), &waits.fallback), (RUNNER, &None));
    assert!(waits.due_at.is_some_and(|at| at > world.clock.now()), "{waits:?}");

    script.absence.lock().unwrap().remove("near");
    world.clock.by(6);
    let launched = reconciled(&world, due).await;
    assert_eq!((launched.runner.as_str(), launched.message.as_str()), ("near", ""));
    assert_eq!(reason(&launched), ABSENT);
}

#[tokio::test]
async fn a_runner_that_keeps_states_elsewhere_is_no_fallback() {
    let (world, org, script) = three().await;
    world.runner(org, "moved", "/srv/other").await;
    script.absence.lock().unwrap().insert(RUNNER, ABSENT.to_owned());
    let due = world.accept_on(org, json!({}), &["moved"]).await;
    let waits = reconciled(&world, due).await;
    assert_eq!((waits.status, waits.runner.as_str()), (Status::Queued, RUNNER));
    assert_eq!(waits.message, format!("{ABSENT}; fallback `moved` keeps states elsewhere"));

    let due = world.accept_on(org, json!({}), &["moved", "far"]).await;
    let launched = reconciled(&world, due).await;
    assert_eq!(launched.runner.as_str(), "far");
}

#[tokio::test]
async fn a_full_limit_of_the_runner_makes_room_for_a_fallback_and_one_of_all_runners_does_not() {
    let (world, org, _) = three().await;
    let scope = limit(&world, org, "runner:somewhere", 1).await;
    let (one, other) = (accepted(&world, org).await, accepted(&world, org).await);
    assert_eq!(reconciled(&world, one).await.runner.as_str(), RUNNER);
    let launched = reconciled(&world, other).await;
    assert_eq!((launched.status, launched.runner.as_str()), (Status::Launching, "near"));
    assert_eq!(reason(&launched), "waiting for the one slot of runner `somewhere`");
    assert_eq!(world.table.held_slots(org, &scope).await.unwrap().len(), 1);

    // The first two hold no slot of this limit, which is younger than they are; a third one does.
    limit(&world, org, "organization", 1).await;
    let (third, fourth) = (accepted(&world, org).await, accepted(&world, org).await);
    assert_eq!(reconciled(&world, third).await.runner.as_str(), "near");
    let waits = reconciled(&world, fourth).await;
    assert_eq!((waits.status, waits.fallback), (Status::Queued, None));
    assert_eq!(waits.message, "waiting for the one slot of the organization");
}

#[tokio::test]
async fn a_deployment_that_names_its_agent_has_no_fallback() {
    let (world, org, script) = three().await;
    script.absence.lock().unwrap().insert(RUNNER, ABSENT.to_owned());
    let due = accepted(&world, org).await;
    let mut deployment = world.read(due).await;
    deployment.agent = Some("laptop".parse().unwrap());
    deployment.version += 1;
    let saved = world.table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    let launched = reconciled(&world, due).await;
    assert_eq!((launched.runner.as_str(), launched.fallback), (RUNNER, None));
}
