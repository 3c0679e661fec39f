//! Limits on concurrent attempts: never more, and no slot is lost.

use crate::world::{RUNNER, World, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::concurrency::{ConcurrencyLimit, LimitScope};
use canyon_domain::deployment::Status;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::OrgUuid;
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_domain::waiting::Hold;
use canyon_launcher::ReconcileTrigger;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;

pub(crate) async fn limit(world: &World, org: OrgUuid, scope: &str, max_jobs: u32) -> LimitScope {
    let scope: LimitScope = scope.parse().unwrap();
    let updated_at = world.clock.now();
    let limit = ConcurrencyLimit { scope: scope.clone(), max_jobs, updated_at };
    world.table.set_limit(org, &limit, &record()).await.unwrap();
    // Longer than the cache of limits.
    world.clock.by(6);
    scope
}

async fn open(world: &World, all: &[Due]) -> usize {
    let mut open = 0;
    for due in all {
        open += usize::from(world.read(*due).await.open_attempt().is_some());
    }
    open
}

/// The runner reports its result, as the API writes it.
pub(crate) async fn end(world: &World, due: Due) {
    let mut deployment = world.read(due).await;
    lifecycle::end(&mut deployment, 1, Outcome::Succeeded, world.clock.now()).unwrap();
    deployment.version += 1;
    let now = world.clock.now();
    let saved = world.table.end_deployment(due.org, &deployment, now, None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_more_attempts_run_at_once_than_the_limit_and_all_get_their_turn() {
    never_more_than_three("project:shop", "project `shop`", "organization").await;
}

/// Each limit that covers a deployment applies, whichever is checked first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_wider_of_two_limits_applies_if_it_is_the_lower() {
    never_more_than_three("organization", "the organization", "project:shop").await;
}

async fn never_more_than_three(binding: &str, in_words: &str, other: &str) {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let scope = limit(&world, org, binding, 3).await;
    let other = limit(&world, org, other, 5).await;
    let mut all = Vec::new();
    for _ in 0..12 {
        all.push(world.accept(org).await);
    }
    let mut ended = Vec::new();
    while ended.len() < all.len() {
        let tasks = all.iter().map(|due| {
            let (launcher, due) = (world.launcher.clone(), *due);
            tokio::spawn(async move { launcher.reconcile(due, ReconcileTrigger::Due).await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
        let running = open(&world, &all).await;
        assert!((1..=3).contains(&running), "{running} run, {} have ended", ended.len());
        assert_eq!(world.table.held_slots(org, &scope).await.unwrap().len(), running);
        for due in &all {
            let deployment = world.read(*due).await;
            if deployment.open_attempt().is_some() {
                world.claim(*due).await;
                end(&world, *due).await;
                ended.push(*due);
            } else if deployment.status == Status::Queued && running == 3 {
                let message = &deployment.message;
                assert!(
                    message.starts_with(&format!("waiting for one of the 3 slots of {in_words}")),
                    "{message}"
                );
            }
        }
        world.clock.by(6);
    }
    for scope in [scope, other] {
        assert!(world.table.held_slots(org, &scope).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_failed_attempt_releases_its_slot_before_the_next_one_takes_it() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let scope = limit(&world, org, "runner:somewhere", 1).await;
    let (one, other) = (world.accept(org).await, world.accept(org).await);
    world.reconcile(one).await;
    world.reconcile(other).await;
    assert_eq!(open(&world, &[one, other]).await, 1);

    let mut deployment = world.read(one).await;
    let lost = Outcome::Failed(Failure::new(FailureClass::Lost, "gone"));
    lifecycle::end(&mut deployment, 1, lost, world.clock.now()).unwrap();
    assert_eq!(deployment.status, Status::Launching, "it is retried");
    deployment.version += 1;
    let saved = world.table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    assert!(world.table.held_slots(org, &scope).await.unwrap().is_empty());

    world.clock.by(6);
    world.reconcile(other).await;
    assert!(world.read(other).await.open_attempt().is_some());
    world.clock.by(600);
    world.reconcile(one).await;
    let waits = world.read(one).await;
    assert_eq!(waits.message, "waiting for the one slot of runner `somewhere`");
    assert_eq!(waits.hold, Some(Hold::Limit(scope)));
}

#[tokio::test]
async fn a_slot_whose_holder_is_gone_is_reclaimed() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let scope = limit(&world, org, "organization", 1).await;
    let gone = world.accept(org).await;
    world.reconcile(gone).await;
    world.claim(gone).await;
    let client = world.embedded.client();
    let scan = client.scan().table_name("canyon").send().await.unwrap();
    let is_place = |pk: &str| pk.ends_with("#places#organization");
    let mut items = scan.items().iter();
    let item = items.find(|item| is_place(item["pk"].as_s().unwrap())).unwrap().clone();
    end(&world, gone).await;
    assert!(world.table.held_slots(org, &scope).await.unwrap().is_empty());
    // As after a restore of a part of the table, or a defect: no process ever releases it.
    client.put_item().table_name("canyon").set_item(Some(item)).send().await.unwrap();
    let held = world.table.held_slots(org, &scope).await.unwrap();
    assert_eq!(held[0].holder.deployment, gone.id);

    let due = world.accept(org).await;
    world.reconcile(due).await;
    assert!(world.read(due).await.open_attempt().is_some());
    let held = world.table.held_slots(org, &scope).await.unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].holder.deployment, due.id);
}

#[tokio::test]
async fn a_deployment_without_an_agent_holds_no_slot_and_waits_for_one() {
    let world = World::new().await;
    let (org, script) = world.organization("acme").await;
    let absent = "waiting for an agent of runner `somewhere`: none has ever connected";
    script.absence.lock().unwrap().insert(RUNNER, absent.to_owned());
    let unlimited = world.accept(org).await;
    world.reconcile(unlimited).await;
    assert!(world.read(unlimited).await.open_attempt().is_some(), "it takes no slot");
    assert_eq!(script.count("absence"), 0, "without a limit, no call is made");

    let scope = limit(&world, org, "organization", 1).await;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    let waits = world.read(due).await;
    assert_eq!((waits.status, waits.message.as_str()), (Status::Queued, absent));
    assert_eq!(waits.hold, Some(Hold::Agent));
    assert!(world.table.held_slots(org, &scope).await.unwrap().is_empty());

    script.absence.lock().unwrap().clear();
    world.clock.by(30);
    world.reconcile(due).await;
    assert!(world.read(due).await.open_attempt().is_some());
    assert_eq!(world.table.held_slots(org, &scope).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_attempt_from_before_a_limit_holds_no_slot_and_releases_none() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let before = world.accept(org).await;
    world.reconcile(before).await;
    let scope = limit(&world, org, "organization", 1).await;
    let after = world.accept(org).await;
    world.reconcile(after).await;
    assert_eq!(open(&world, &[before, after]).await, 2);
    world.claim(before).await;
    end(&world, before).await;
    let held = world.table.held_slots(org, &scope).await.unwrap();
    assert_eq!(held.iter().map(|held| held.holder.deployment).collect::<Vec<_>>(), [after.id]);
}
