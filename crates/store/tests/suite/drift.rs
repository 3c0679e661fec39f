//! Checks for drift: they are in lists of their own, and a slot that one holds says so.

use crate::world::{LIMITS, World, at, bundle, environment, hash, id, queued, record, record_at};
use canyon_domain::attempt::Outcome;
use canyon_domain::concurrency::{ConcurrencySlot, HeldSlot, LimitScope, SlotHolder};
use canyon_domain::deployment::{Deployment, Mode, Status};
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle;
use canyon_domain::run_kind::RunKind;
use canyon_store::Table;
use canyon_store::concurrency::SlotClaim;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::{DeploymentFilter, Due};
use canyon_store::deployment_removal::RunList;
use canyon_store::deployment_search::DeploymentSearch;
use canyon_store::deployments::{Accepted, DeploymentChange, EnvironmentChange};
use canyon_store::outcome::{Deleted, Saved};
use canyon_store::page::PageRequest;

on_each_table!(
    checks_are_in_the_lists_of_checks_and_in_no_other,
    a_retention_walks_the_checks_apart_and_a_removed_one_is_in_no_list,
    a_slot_that_a_check_holds_says_so,
);

const PAGE: PageRequest = PageRequest { limit: 100, after: None };

/// Accepts a check of `of` beside its queue.
async fn accept_check(world: &World, of: &str, second: i64) -> Deployment {
    let mut environment = world.env(of).await;
    let check = Deployment { mode: Mode::Drift, plan_only: true, ..queued(&environment, second) };
    environment.begin_check(check.id);
    environment.version += 1;
    let (table, record) = (&world.table, record_at(at(second)));
    let accepted =
        table.accept_deployment(world.org, &check, &bundle(), &environment, None, &record).await;
    assert_eq!(accepted.unwrap(), Accepted::Yes);
    check
}

async fn end(world: &World, of: &Deployment, outcome: Outcome) {
    let mut of = world.stored(of.id).await;
    lifecycle::end_without_attempt(&mut of, outcome, at(50));
    of.version += 1;
    let ended = world.table.end_deployment(world.org, &of, at(50), None).await;
    assert_eq!(ended.unwrap(), Saved::Yes);
}

/// The environments `dev` and `prod`.
async fn two_environments(table: Table) -> (World, [Environment; 2]) {
    let (world, dev) = World::with_dev(table).await;
    let prod = environment("shop", "prod");
    world.table.create_environment(world.org, &prod, &record()).await.unwrap();
    (world, [dev, prod])
}

fn ids(of: Vec<Deployment>) -> Vec<DeploymentId> {
    of.into_iter().map(|deployment| deployment.id).collect()
}

async fn checks_are_in_the_lists_of_checks_and_in_no_other(table: Table) {
    let (world, [dev, prod]) = two_environments(table).await;
    let deployment = queued(&dev, 1);
    world.accept(&deployment).await;
    let ended = accept_check(&world, "dev", 2).await;
    end(&world, &ended, Outcome::Cancelled).await;
    let open = accept_check(&world, "dev", 3).await;
    let other = accept_check(&world, "prod", 4).await;

    let list = async |filter: &DeploymentFilter| {
        ids(world.table.deployments(world.org, filter, &PAGE).await.unwrap().items)
    };
    let of_dev = DeploymentFilter::Environment(dev.uuid);
    let checks_of_dev = DeploymentFilter::Checks(dev.uuid);
    for (filter, expected) in [
        (&DeploymentFilter::All, vec![deployment.id]),
        (&DeploymentFilter::Project(id("shop")), vec![deployment.id]),
        (&of_dev, vec![deployment.id]),
        (&DeploymentFilter::Environment(prod.uuid), vec![]),
        (&checks_of_dev, vec![open.id, ended.id]),
        (&DeploymentFilter::Checks(prod.uuid), vec![other.id]),
    ] {
        assert_eq!(list(filter).await, expected, "{filter:?}");
    }

    let search = async |scope: &DeploymentFilter, status, kind| {
        let search = DeploymentSearch { status, kind, ..DeploymentSearch::of(scope.clone()) };
        let mut found = Vec::new();
        // With the lists of ends, as every organization of this version has them, and without.
        for lists_ends in [search.may_use_ends(), false] {
            let search = DeploymentSearch { lists_ends, ..search.clone() };
            let page = world.table.search_deployments(world.org, &search, &PAGE).await.unwrap();
            found.push(ids(page.items));
        }
        assert_eq!(found[0], found[1], "{search:?}");
        found.remove(0)
    };
    let (cancelled, drift) = (Some(Status::Cancelled), Some(RunKind::Drift));
    assert_eq!(search(&checks_of_dev, None, None).await, [open.id, ended.id]);
    assert_eq!(search(&checks_of_dev, None, drift).await, [open.id, ended.id]);
    assert_eq!(search(&checks_of_dev, cancelled, drift).await, [ended.id]);
    for scope in [&DeploymentFilter::All, &DeploymentFilter::Project(id("shop")), &of_dev] {
        assert_eq!(search(scope, None, None).await, [deployment.id], "{scope:?}");
        assert_eq!(search(scope, cancelled, None).await, [], "{scope:?}");
    }
    // The launcher finds both.
    let due = world.table.due(at(100), 100).await.unwrap();
    for id in [deployment.id, open.id, other.id] {
        assert!(due.contains(&Due { org: world.org, id }));
    }
}

async fn a_retention_walks_the_checks_apart_and_a_removed_one_is_in_no_list(table: Table) {
    let (world, [dev, _]) = two_environments(table).await;
    let first = accept_check(&world, "dev", 1).await;
    end(&world, &first, Outcome::Cancelled).await;
    let deployment = queued(&dev, 2);
    world.accept(&deployment).await;
    let second = accept_check(&world, "prod", 3).await;
    let oldest = async |list, after, before: i64| {
        world.table.oldest_deployments(world.org, list, after, at(before), 9).await.unwrap()
    };
    assert_eq!(oldest(RunList::Deployments, None, 9).await, [deployment.id]);
    assert_eq!(oldest(RunList::ChecksForDrift, None, 9).await, [first.id, second.id]);
    assert_eq!(oldest(RunList::ChecksForDrift, Some(first.id), 9).await, [second.id]);
    assert_eq!(oldest(RunList::ChecksForDrift, None, 2).await, [first.id]);

    let stored = world.stored(first.id).await;
    let removed = world.table.remove_deployment(world.org, &stored).await.unwrap();
    assert_eq!(removed, Deleted::Yes);
    assert_eq!(oldest(RunList::ChecksForDrift, None, 9).await, [second.id]);
    let checks = DeploymentFilter::Checks(dev.uuid);
    let left = world.table.deployments(world.org, &checks, &PAGE).await.unwrap();
    assert_eq!((left.items, left.next), (vec![], None));
    assert_eq!(world.table.bundle(world.org, first.id).await.unwrap(), None);
}

/// Writes the first attempt of `of` with slot `number` of the organization's limit, as the launcher does.
async fn launch(world: &World, of: &Deployment, number: u32) -> HeldSlot {
    let (mut deployment, mut environment) = (of.clone(), world.env(of.env.as_str()).await);
    let fence = if of.mode.takes_turn() {
        environment.queue.take(of.id).unwrap()
    } else {
        environment.queue.fence
    };
    lifecycle::launch(&mut deployment, fence, hash("code"), LIMITS, at(20)).unwrap();
    let slot = ConcurrencySlot { scope: LimitScope::Organization, number };
    deployment.attempts[0].slots = vec![slot.clone()];
    deployment.version += 1;
    environment.version += 1;
    let step = DeploymentChange {
        deployment: &deployment,
        environment: EnvironmentChange::Save(&environment),
        next: None,
        wake: Wake::None,
        record: None,
    };
    let claims = [SlotClaim { slot, former_holder: None }];
    let saved = world.table.launch_deployment(world.org, &step, &claims).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    let holder = SlotHolder { deployment: of.id, attempt: 1 };
    HeldSlot { number, holder, of_check: !of.mode.takes_turn() }
}

async fn a_slot_that_a_check_holds_says_so(table: Table) {
    let (world, [dev, _]) = two_environments(table).await;
    let deployment = queued(&dev, 1);
    world.accept(&deployment).await;
    let check = accept_check(&world, "prod", 2).await;
    let of_deployment = launch(&world, &deployment, 0).await;
    let of_check = launch(&world, &check, 1).await;
    assert!(of_check.of_check && !of_deployment.of_check);
    let held = async || world.table.held_slots(world.org, &LimitScope::Organization).await.unwrap();
    assert_eq!(held().await, [of_deployment.clone(), of_check]);
    // Its end frees the slot.
    let mut check = world.stored(check.id).await;
    assert!(lifecycle::overtake(&mut check, at(30)));
    lifecycle::end(&mut check, 1, Outcome::Cancelled, at(31)).unwrap();
    check.version += 1;
    let ended = world.table.end_deployment(world.org, &check, at(31), None).await;
    assert_eq!(ended.unwrap(), Saved::Yes);
    assert_eq!(held().await, [of_deployment]);
}
