//! Plans that wait for the approval of people: what the launcher does when none comes.

use crate::world::World;
use canyon_domain::approval::{Approval, ApprovalNeed, ApprovalRule, TurnHold};
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::Status;
use canyon_domain::kept_plan::KeptPlan;
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;
use serde_json::json;

/// A deployment whose plan waits for approval, and one behind it in the queue.
async fn waiting(hold: TurnHold) -> (World, Due, Due) {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let due = world.accept(org).await;
    let rule = ApprovalRule {
        hold: Some(hold),
        expires_seconds: 300,
        ..ApprovalRule::of(ApprovalNeed::Always)
    };
    let mut deployment = world.read(due).await;
    deployment.approval = Approval::by_rules(&[&rule]).map(Box::new);
    deployment.version += 1;
    let saved = world.table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    world.reconcile(due).await;
    world.claim(due).await;
    let later = world.accept_after(due).await;
    let (mut planned, now) = (world.read(due).await, world.clock.now());
    let plan: KeptPlan = serde_json::from_value(json!({
        "attempt": 1, "digest": "ab".repeat(32), "parts": 1, "pages": 1, "summary": { "add": 1 },
    }))
    .unwrap();
    planned.plan = Some(Box::new(plan));
    lifecycle::end(&mut planned, 1, Outcome::Succeeded, now).unwrap();
    planned.version += 1;
    let saved = if planned.waits_without_turn() {
        world.table.release_turn(org, &planned, now).await
    } else {
        world.table.save_deployment(org, &planned, Wake::Launcher).await
    };
    assert_eq!(saved.unwrap(), Saved::Yes);
    (world, due, later)
}

#[tokio::test]
async fn a_plan_that_is_not_approved_in_time_ends_its_deployment_and_the_next_one_begins() {
    let (world, due, later) = waiting(TurnHold::Turn).await;
    world.reconcile(due).await;
    world.reconcile(later).await;
    assert_eq!(world.read(due).await.status, Status::Running, "there is time");
    assert!(world.read(later).await.open_attempt().is_none(), "it waits behind the plan");
    world.clock.by(300);
    world.reconcile(due).await;
    let ended = world.read(due).await;
    assert_eq!(
        (ended.status, ended.message.as_str()),
        (Status::Cancelled, "its plan was not approved in time")
    );
    assert_eq!(ended.attempts.len(), 1, "nothing was applied");
    world.reconcile(later).await;
    assert!(world.read(later).await.open_attempt().is_some());
}

#[tokio::test]
async fn the_next_deployment_begins_while_a_plan_waits_without_the_turn() {
    let (world, due, later) = waiting(TurnHold::Release).await;
    let next = world.read(later).await;
    assert!(next.due_at <= Some(world.clock.now()), "the same write has made it due");
    world.reconcile(later).await;
    assert!(world.read(later).await.open_attempt().is_some());
    assert_eq!(world.environment(due).await.queue.current, Some(later.id));
    world.clock.by(300);
    world.reconcile(due).await;
    assert_eq!(world.read(due).await.status, Status::Cancelled);
    assert_eq!(world.environment(due).await.queue.current, Some(later.id), "it keeps the turn");
}
