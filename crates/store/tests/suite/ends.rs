//! The end of a deployment gives the turn to the next once; a destroy run's end deletes the
//! environment.

use crate::world::{World, at, bundle, count, id, principal, queued, race, record, record_at};
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::{Deployment, Mode, Status};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::inventory::EnvironmentStatus;
use canyon_domain::lifecycle;
use canyon_store::Table;
use canyon_store::deployment_ends::ReadBefore;
use canyon_store::deployment_lists::Due;
use canyon_store::deployments::Accepted;
use canyon_store::outcome::{Deleted, Saved};
use jiff::Timestamp;

on_each_table!(
    of_16_ends_one_gives_the_turn_to_the_next_and_makes_it_due,
    an_end_is_written_during_many_concurrent_acceptances,
    fifty_deployments_of_one_environment_take_their_turns_in_order,
    a_deployment_that_leaves_the_middle_of_the_queue_wakes_no_other,
    a_destroy_run_deletes_its_environment_and_releases_what_it_used,
    an_environment_whose_destroy_run_fails_stays_and_states_the_reason,
    a_deployment_can_end_without_its_environment,
    an_environment_that_was_read_too_early_is_read_again,
);

/// `deployment` after its end, ready to be written.
fn ended(mut deployment: Deployment, outcome: Outcome, now: Timestamp) -> Deployment {
    if let Some(attempt) = deployment.open_attempt().cloned() {
        let (number, code) = (attempt.number, attempt.claim_hash);
        let token = code.clone();
        lifecycle::claim(&mut deployment, number, &code, "me", token, (0, 0), now).unwrap();
        lifecycle::end(&mut deployment, number, outcome, now).unwrap();
    } else {
        lifecycle::end_without_attempt(&mut deployment, outcome, now);
    }
    deployment.version += 1;
    deployment
}

impl World {
    async fn end(&self, deployment: &Deployment, now: Timestamp) -> Saved {
        let record = record_at(now);
        self.table.end_deployment(self.org, deployment, now, Some(&record)).await.unwrap()
    }
}

async fn of_16_ends_one_gives_the_turn_to_the_next_and_makes_it_due(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let [first, second, third] = [1, 2, 3].map(|second| {
        let mut deployment = queued(&dev, second);
        deployment.due_at = Some(at(1_000 + second));
        deployment
    });
    for deployment in [&first, &second, &third] {
        world.accept(deployment).await;
    }
    assert!(world.launch(second.id, at(4)).await.is_none(), "not its turn");
    let launched = world.launch(first.id, at(4)).await.unwrap();
    let over = ended(launched, Outcome::Succeeded, at(5));
    let saved = race(|n| {
        let (world, mut over) = (world.clone(), over.clone());
        over.message = format!("by {n}");
        async move { world.end(&over, at(5)).await }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let next = Deployment { due_at: Some(at(5)), version: 2, ..second.clone() };
    assert_eq!(world.stored(second.id).await, next, "written exactly once");
    assert_eq!(world.stored(third.id).await, third);
    let queue = world.env("dev").await.queue;
    assert_eq!((queue.current, queue.waiting), (None, vec![second.id, third.id]));
    let due = world.table.due(at(5), 10).await.unwrap();
    assert_eq!(due, [Due { org: world.org, id: second.id }]);
}

async fn an_end_is_written_during_many_concurrent_acceptances(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let first = queued(&dev, 0);
    world.accept(&first).await;
    let launched = world.launch(first.id, at(1)).await.unwrap();
    let over = ended(launched, Outcome::Succeeded, at(2));
    race(|n| {
        let (world, over, mut other) = (world.clone(), over.clone(), queued(&dev, n as i64));
        other.due_at = Some(at(900));
        async move {
            if n == 8 {
                assert_eq!(world.end(&over, at(2)).await, Saved::Yes);
            } else {
                world.accept(&other).await;
            }
        }
    })
    .await;
    assert_eq!(world.stored(first.id).await, over);
    let queue = world.env("dev").await.queue;
    assert_eq!((queue.current, queue.waiting.len()), (None, 15));
}

async fn fifty_deployments_of_one_environment_take_their_turns_in_order(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    race(|n| {
        let (world, dev) = (world.clone(), dev.clone());
        async move {
            for round in 0..if n < 2 { 4 } else { 3 } {
                let mut deployment = queued(&dev, 16 * round + n as i64);
                deployment.due_at = Some(at(100_000));
                world.accept(&deployment).await;
            }
        }
    })
    .await;
    let order = world.env("dev").await.queue.waiting;
    assert_eq!(order.len(), 50);
    for (n, id) in order.iter().enumerate() {
        let now = at(1_000 + n as i64);
        if n > 0 {
            let due = world.table.due(now, 100).await.unwrap();
            assert_eq!(due, [Due { org: world.org, id: *id }], "{n}");
        }
        if let Some(later) = order.get(n + 1) {
            assert!(world.launch(*later, now).await.is_none(), "{n}");
        }
        let launched = world.launch(*id, now).await.unwrap();
        assert_eq!(launched.attempts[0].fence, n as u64 + 1);
        assert_eq!(world.end(&ended(launched, Outcome::Succeeded, now), now).await, Saved::Yes);
    }
    assert!(world.env("dev").await.queue.is_idle());
    assert!(world.table.due(Timestamp::MAX, 100).await.unwrap().is_empty());
}

async fn a_deployment_that_leaves_the_middle_of_the_queue_wakes_no_other(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let all = [1, 2, 3].map(|second| queued(&dev, second));
    for deployment in &all {
        world.accept(deployment).await;
    }
    let gone = ended(all[1].clone(), Outcome::Cancelled, at(9));
    assert_eq!(world.end(&gone, at(9)).await, Saved::Yes);
    assert_eq!(world.stored(all[0].id).await, all[0]);
    assert_eq!(world.stored(all[2].id).await, all[2]);
    // The first deployment has not started: when it leaves, the turn goes to the next too.
    let gone = ended(all[0].clone(), Outcome::Cancelled, at(10));
    assert_eq!(world.end(&gone, at(10)).await, Saved::Yes);
    assert_eq!(world.stored(all[2].id).await.due_at, Some(at(10)));
    assert_eq!(world.env("dev").await.queue.waiting, [all[2].id]);
}

/// Accepts and launches the destroy run whose end deletes `dev`.
async fn destroy(world: &World) -> Deployment {
    let mut dev = world.env("dev").await;
    let mut run = queued(&dev, 20);
    run.mode = Mode::Destroy;
    dev.queue.join(run.id).unwrap();
    dev.status = EnvironmentStatus::Deleting;
    dev.removed_by = Some(run.id);
    dev.version += 1;
    let accepted =
        world.table.accept_deployment(world.org, &run, &bundle(), &dev, None, &record()).await;
    assert_eq!(accepted.unwrap(), Accepted::Yes);
    world.launch(run.id, at(21)).await.unwrap()
}

async fn a_destroy_run_deletes_its_environment_and_releases_what_it_used(table: Table) {
    let (world, _) = World::with_dev(table).await;
    let World { table, org } = &world;
    let run = destroy(&world).await;
    let deletions = async || {
        [
            table.delete_project(*org, &id("shop"), &[], &record()).await.unwrap(),
            table.delete_env_type(*org, &id("testing"), &record()).await.unwrap(),
            table.delete_runner(*org, &id("laptop"), &record()).await.unwrap(),
        ]
    };
    assert_eq!(deletions().await, [Deleted::No; 3]);
    let over = ended(run, Outcome::Succeeded, at(30));
    let saved = race(|_| {
        let (world, over) = (world.clone(), over.clone());
        async move { world.end(&over, at(30)).await }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    assert_eq!(table.environment(*org, &id("shop"), &id("dev")).await.unwrap(), None);
    assert_eq!(deletions().await, [Deleted::Yes; 3]);
    assert_eq!(world.stored(over.id).await, over, "the deployment itself stays");
}

async fn an_environment_whose_destroy_run_fails_stays_and_states_the_reason(table: Table) {
    let (world, _) = World::with_dev(table).await;
    let mut run = destroy(&world).await;
    let failure = Failure::new(FailureClass::User, "the bucket is not empty");
    lifecycle::end(&mut run, 1, Outcome::Failed(failure), at(30)).unwrap();
    run.version += 1;
    assert_eq!(world.end(&run, at(30)).await, Saved::Yes);
    let dev = world.env("dev").await;
    assert_eq!((dev.status, dev.removed_by), (EnvironmentStatus::DeleteFailed, None));
    assert!(dev.status_message.unwrap().ends_with("ended as failed: the bucket is not empty"));
    assert!(dev.queue.is_idle());
    let deleted = world.table.delete_project(world.org, &id("shop"), &[], &record()).await.unwrap();
    assert_eq!(deleted, Deleted::No);
    // A retry is possible.
    let again = ended(destroy(&world).await, Outcome::Succeeded, at(50));
    assert_eq!(world.end(&again, at(50)).await, Saved::Yes);
    assert_eq!(world.table.environment(world.org, &id("shop"), &id("dev")).await.unwrap(), None);
}

async fn a_deployment_can_end_without_its_environment(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let mut deployment = queued(&dev, 1);
    world.accept(&deployment).await;
    let World { table, org } = &world;
    table.delete_environment(*org, &world.env("dev").await, &record()).await.unwrap();
    // A later environment of the same name does not change.
    let successor = crate::world::environment("shop", "dev");
    table.create_environment(*org, &successor, &record()).await.unwrap();
    lifecycle::cancel(&mut deployment, principal(), at(2));
    deployment.version += 1;
    assert_eq!(world.end(&deployment, at(2)).await, Saved::Yes);
    assert_eq!(world.stored(deployment.id).await.status, Status::Cancelled);
    assert_eq!(world.env("dev").await, successor);
}

async fn an_environment_that_was_read_too_early_is_read_again(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let [first, second] = [1, 2].map(|second| queued(&dev, second));
    world.accept(&first).await;
    let launched = world.launch(first.id, at(4)).await.unwrap();
    let early = Box::new(world.env("dev").await);
    world.accept(&second).await;
    let over = ended(launched, Outcome::Succeeded, at(5));
    let before = ReadBefore { environment: Some(early), due_at: None };
    let saved = world.table.end_deployment_in(world.org, &over, before, at(5), None).await;
    assert_eq!(saved.unwrap(), Saved::Yes);
    let queue = world.env("dev").await.queue;
    assert_eq!((queue.current, queue.waiting), (None, vec![second.id]), "the second one waits");
}
