//! Slots of concurrency limits: one attempt holds a slot, from its launch to its end.

use crate::world::{LIMITS, World, at, count, environment, hash, queued, race, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::concurrency::{ConcurrencyLimit, ConcurrencySlot, LimitScope, SlotHolder};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle;
use canyon_store::Table;
use canyon_store::concurrency::SlotClaim;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::{Deleted, Saved};
use uuid::Uuid;

on_each_table!(limits_are_created_changed_listed_and_deleted, a_slot_has_one_holder);

fn limit(scope: &str, max_jobs: u32) -> ConcurrencyLimit {
    ConcurrencyLimit { scope: scope.parse().unwrap(), max_jobs, updated_at: at(0) }
}

async fn limits_are_created_changed_listed_and_deleted(table: Table) {
    let (org, other) = (OrgUuid(Uuid::now_v7()), OrgUuid(Uuid::now_v7()));
    for scope in ["organization", "runner:laptop", "project:payments/eu"] {
        for max_jobs in [3, 1] {
            table.set_limit(org, &limit(scope, max_jobs), &record()).await.unwrap();
        }
    }
    let all = table.all_limits(org).await.unwrap();
    let expected = ["organization", "project:payments/eu", "runner:laptop"];
    assert_eq!(all, expected.map(|scope| limit(scope, 1)));
    assert!(table.all_limits(other).await.unwrap().is_empty());
    let scope = LimitScope::Organization;
    for deleted in [Deleted::Yes, Deleted::No] {
        assert_eq!(table.delete_limit(org, &scope, &record()).await.unwrap(), deleted);
    }
    assert_eq!(table.limit(org, &scope).await.unwrap(), None);
}

/// Sixteen deployments, each with an environment of its own.
async fn sixteen(world: &World) -> Vec<(Deployment, Environment)> {
    let mut all = Vec::new();
    for n in 0..16 {
        let env = environment("shop", &format!("env-{n}"));
        world.table.create_environment(world.org, &env, &record()).await.unwrap();
        let deployment = queued(&env, n);
        world.accept(&deployment).await;
        all.push((deployment, world.env(&format!("env-{n}")).await));
    }
    all
}

/// Writes the first attempt with slot 0 of the organization's limit.
async fn launch(
    world: &World,
    of: &(Deployment, Environment),
    instead_of: Option<SlotHolder>,
) -> (Saved, Deployment) {
    let (mut deployment, mut environment) = of.clone();
    let fence = environment.queue.take(deployment.id).unwrap();
    lifecycle::launch(&mut deployment, fence, hash("code"), LIMITS, at(20)).unwrap();
    let place = ConcurrencySlot { scope: LimitScope::Organization, number: 0 };
    deployment.attempts[0].slots = vec![place.clone()];
    deployment.version += 1;
    environment.version += 1;
    let step = DeploymentChange {
        deployment: &deployment,
        environment: EnvironmentChange::Save(&environment),
        next: None,
        wake: Wake::None,
        record: None,
    };
    let takings = [SlotClaim { slot: place, former_holder: instead_of }];
    (world.table.launch_deployment(world.org, &step, &takings).await.unwrap(), deployment)
}

async fn end(world: &World, mut deployment: Deployment) {
    lifecycle::end(&mut deployment, 1, Outcome::Cancelled, at(30)).unwrap();
    deployment.version += 1;
    let saved = world.table.end_deployment(world.org, &deployment, at(30), None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    assert!(world.stored(deployment.id).await.attempts[0].slots.is_empty());
}

async fn holders(world: &World) -> Vec<SlotHolder> {
    let held = world.table.held_slots(world.org, &LimitScope::Organization).await.unwrap();
    held.into_iter().map(|held| held.holder).collect()
}

async fn a_slot_has_one_holder(table: Table) {
    let world = World::new(table).await;
    let all = sixteen(&world).await;
    let launched = race(|n| {
        let (world, one) = (world.clone(), all[n].clone());
        async move { launch(&world, &one, None).await }
    })
    .await;
    let mut winners = launched.iter().filter(|(saved, _)| *saved == Saved::Yes);
    let (_, winner) = winners.next().unwrap();
    assert!(winners.next().is_none(), "one slot, one holder");
    let first = SlotHolder { deployment: winner.id, attempt: 1 };
    assert_eq!(holders(&world).await, [first]);

    // The launcher declares the holder dead by mistake: of 16 attempts that replace it, one wins.
    let others: Vec<_> = all.iter().filter(|(other, _)| other.id != winner.id).cloned().collect();
    let replaced = race(|n| {
        let (world, one) = (world.clone(), others[n % others.len()].clone());
        async move { launch(&world, &one, Some(first)).await }
    })
    .await;
    let saved: Vec<_> = replaced.iter().map(|(saved, _)| *saved).collect();
    assert_eq!(count(&saved, &Saved::Yes), 1);
    let successor = replaced.iter().find(|(saved, _)| *saved == Saved::Yes).unwrap().1.clone();
    let second = SlotHolder { deployment: successor.id, attempt: 1 };
    assert_eq!(holders(&world).await, [second]);

    // The end of the former holder is written too, and leaves the slot to the new holder.
    end(&world, winner.clone()).await;
    assert_eq!(holders(&world).await, [second]);
    end(&world, successor).await;
    assert_eq!(holders(&world).await, []);
}
