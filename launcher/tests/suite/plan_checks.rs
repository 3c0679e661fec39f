//! External checks of a plan that waits: the launcher requests them, and enforces their deadlines.

use crate::world::World;
use canyon_domain::approval::{Approval, ApprovalNeed, ApprovalRule};
use canyon_domain::deployment::Status;
use canyon_domain::kept_plan::{KeptPlan, PlanSummary};
use canyon_domain::plan_check::{PlanCheckRule, PlanCheckStatus};
use canyon_domain::ports::Clock as _;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;

/// A deployment whose plan waits for one mandatory check, as the API writes it.
async fn waiting(world: &World) -> Due {
    let (org, _) = world.organization("acme").await;
    let due = world.accept(org).await;
    let check = PlanCheckRule {
        id: "security".parse().unwrap(),
        url: "https://checks.example.com/canyon".to_owned(),
        mandatory: true,
        timeout_seconds: 300,
    };
    let rule =
        ApprovalRule { count: 0, checks: vec![check], ..ApprovalRule::of(ApprovalNeed::Changes) };
    let mut approval = Approval::by_rules(&[&rule]).unwrap();
    let (mut deployment, now) = (world.read(due).await, world.clock.now());
    approval.ask(now);
    deployment.due_at = approval.due_at();
    deployment.approval = Some(Box::new(approval));
    deployment.plan = Some(Box::new(KeptPlan {
        attempt: 1,
        digest: "ab".repeat(32).parse().unwrap(),
        parts: 1,
        pages: 1,
        sealed: false,
        summary: PlanSummary { add: 1, ..PlanSummary::default() },
    }));
    deployment.version += 1;
    let saved = world.table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    due
}

/// The launcher of these tests has no issuer, so it sends nothing.
#[tokio::test]
async fn a_check_that_cannot_be_requested_is_tried_again_and_ends_the_deployment_at_its_deadline() {
    let world = World::new().await;
    let due = waiting(&world).await;
    for _ in 0..3 {
        world.reconcile(due).await;
        let waits = world.read(due).await;
        let check = &waits.approval.as_ref().unwrap().checks[0];
        assert_eq!((waits.status, check.status), (Status::Queued, PlanCheckStatus::Pending));
        assert!(check.message.as_ref().unwrap().contains("issuer"), "{check:?}");
        let pause = waits.due_at.unwrap().duration_since(world.clock.now()).as_secs();
        assert!((1..=30).contains(&pause), "{pause} s");
        world.clock.by(31);
    }
    world.clock.by(300);
    world.reconcile(due).await;
    let ended = world.read(due).await;
    assert_eq!(ended.status, Status::Cancelled);
    assert!(ended.message.contains("`security`") && ended.message.contains("issuer"), "{ended:?}");
    assert!(world.environment(due).await.queue.is_idle(), "the next deployment may start");
}
