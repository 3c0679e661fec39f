//! A deployment is accepted with all its parts, or not at all.

use crate::world::{
    World, at, bundle, count, everything, hash, principal, queued, race, record, record_at,
};
use canyon_domain::attempt::Outcome;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::deployment::{ResourceCounts, StoredResults};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::ids::DeploymentId;
use canyon_domain::lifecycle;
use canyon_store::Table;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{Accepted, IdempotencyRecord};
use canyon_store::outcome::Saved;
use jiff::ToSpan;
use uuid::Uuid;

on_each_table!(
    an_accepted_deployment_is_stored_with_its_bundle_queue_entry_key_and_record,
    an_acceptance_that_fails_for_any_reason_writes_nothing,
    of_16_acceptances_under_one_key_one_creates_a_deployment,
    an_expired_key_can_be_used_again,
    of_16_writers_that_read_one_version_one_wins,
    a_deployment_with_all_its_fields_reads_back,
);

fn key(deployment: DeploymentId, second: i64) -> IdempotencyRecord {
    IdempotencyRecord {
        by: principal().into(),
        key: "order-66".to_owned(),
        body: hash("body").0,
        deployment,
        expires_at: at(second) + 24.hours(),
    }
}

async fn an_accepted_deployment_is_stored_with_its_bundle_queue_entry_key_and_record(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let deployment = queued(&dev, 1);
    let key = key(deployment.id, 1);
    assert_eq!(world.try_accept(&deployment, Some(&key)).await, Accepted::Yes);
    assert_eq!(world.stored(deployment.id).await, deployment);
    let World { table, org } = &world;
    assert_eq!(table.bundle(*org, deployment.id).await.unwrap(), Some(bundle()));
    assert_eq!(table.idempotency(*org, &principal().into(), "order-66").await.unwrap(), Some(key));
    let dev = world.env("dev").await;
    assert_eq!((dev.queue.waiting, dev.version), (vec![deployment.id], 2));
    assert_eq!(world.records().await, 5);
}

async fn an_acceptance_that_fails_for_any_reason_writes_nothing(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let first = queued(&dev, 1);
    world.try_accept(&first, Some(&key(first.id, 1))).await;
    let dev = world.env("dev").await;
    let before = everything(&world.table).await;

    let second = queued(&dev, 2);
    let mut now = dev.clone();
    now.queue.join(second.id).unwrap();
    now.version += 1;
    let mut stale = now.clone();
    stale.version = dev.version;
    let mut elsewhere = now.clone();
    elsewhere.id = crate::world::id("absent");
    let mut same_id = second.clone();
    same_id.id = first.id;
    let (used, mut free) = (key(second.id, 2), key(second.id, 2));
    "another".clone_into(&mut free.key);
    let written = world
        .table
        .audit_records(world.org, at(0), at(9), &AuditFilter::default(), &crate::pages::first(1))
        .await;
    let known = written.unwrap().items[0].clone();

    let cases = [
        ("a stale environment", &second, &stale, None, &record(), Accepted::Lost),
        ("an absent environment", &second, &elsewhere, None, &record(), Accepted::Lost),
        ("a stale one, with a key", &second, &stale, Some(&free), &record(), Accepted::Lost),
        ("a used key", &second, &now, Some(&used), &record(), Accepted::Repeated),
        ("both", &second, &stale, Some(&used), &record(), Accepted::Repeated),
        ("an existing id", &same_id, &now, Some(&free), &record(), Accepted::Lost),
        ("an existing record", &second, &now, Some(&free), &known, Accepted::Lost),
    ];
    for (what, deployment, environment, key, record, expected) in cases {
        let accepted = world
            .table
            .accept_deployment(world.org, deployment, &bundle(), environment, key, record)
            .await;
        assert_eq!(accepted.unwrap(), expected, "{what}");
        assert_eq!(everything(&world.table).await, before, "{what}");
    }
    assert_eq!(world.try_accept(&second, Some(&free)).await, Accepted::Yes);
}

async fn of_16_acceptances_under_one_key_one_creates_a_deployment(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let accepted = race(|n| {
        let (world, deployment) = (world.clone(), queued(&dev, n as i64));
        async move {
            loop {
                let key = key(deployment.id, 0);
                let accepted = world.try_accept(&deployment, Some(&key)).await;
                if accepted != Accepted::Lost {
                    return (accepted, deployment.id);
                }
            }
        }
    })
    .await;
    let made: Vec<_> = accepted.iter().filter(|(made, _)| *made == Accepted::Yes).collect();
    assert_eq!(made.len(), 1, "{accepted:?}");
    let known = world.table.idempotency(world.org, &principal().into(), "order-66").await.unwrap();
    assert_eq!(known.unwrap().deployment, made[0].1);
    assert_eq!(world.env("dev").await.queue.waiting, [made[0].1]);
}

async fn an_expired_key_can_be_used_again(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let day = 24 * 3_600;
    let cases = [
        (0, Accepted::Yes),
        (day - 1, Accepted::Repeated),
        (day, Accepted::Yes),
        (2 * day - 1, Accepted::Repeated),
    ];
    for (second, expected) in cases {
        let deployment = queued(&dev, second);
        let key = key(deployment.id, second);
        assert_eq!(world.try_accept(&deployment, Some(&key)).await, expected, "{second}");
        let known =
            world.table.idempotency(world.org, &principal().into(), "order-66").await.unwrap();
        assert_eq!(known.unwrap().deployment == deployment.id, expected == Accepted::Yes);
    }
    let other = IdempotencyRecord {
        by: canyon_domain::ids::PrincipalId(Uuid::nil()).into(),
        ..key(DeploymentId(Uuid::nil()), 0)
    };
    let accepted = world.try_accept(&queued(&dev, 1), Some(&other)).await;
    assert_eq!(accepted, Accepted::Yes, "keys of callers are separate");
}

async fn of_16_writers_that_read_one_version_one_wins(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    for (version, with_record) in [(2, false), (3, true)] {
        let deployment = queued(&dev, version);
        world.accept(&deployment).await;
        let saved = race(|n| {
            let (World { table, org }, mut deployment) = (world.clone(), deployment.clone());
            deployment.message = format!("by {n}");
            deployment.version += 1;
            async move {
                if with_record {
                    table.save_deployment_with(org, &deployment, &record()).await.unwrap()
                } else {
                    table.save_deployment(org, &deployment, Wake::None).await.unwrap()
                }
            }
        })
        .await;
        assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
        let winner = saved.iter().position(|saved| *saved == Saved::Yes).unwrap();
        let stored = world.stored(deployment.id).await;
        assert_eq!((stored.message, stored.version), (format!("by {winner}"), 2));
    }
    let before = everything(&world.table).await;
    let mut absent = queued(&dev, 9);
    absent.version = 2;
    assert_eq!(
        world.table.save_deployment(world.org, &absent, Wake::None).await.unwrap(),
        Saved::Lost
    );
    let ended = world.table.end_deployment(world.org, &absent, at(10), Some(&record())).await;
    assert_eq!(ended.unwrap(), Saved::Lost);
    assert_eq!(everything(&world.table).await, before);
}

async fn a_deployment_with_all_its_fields_reads_back(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let mut full = queued(&dev, 1);
    world.accept(&full).await;
    full.plan_only = true;
    full.rollback_to = Some(full.id);
    full.counts =
        Some(ResourceCounts { total: Some(30), added: 10, changed: 5, removed: u32::MAX });
    full.kept =
        StoredResults { outputs: true, encrypted_outputs: true, orphans: 3, late_orphans: false };
    let outcomes = [
        Outcome::Failed(Failure::new(FailureClass::Lost, "gone: \u{0}\u{1f4a5}")),
        Outcome::Cancelled,
    ];
    for (number, outcome) in (1..).zip(outcomes) {
        let now = at(10 * i64::from(number));
        let limits = crate::world::LIMITS;
        lifecycle::launch(&mut full, u64::MAX, hash("code"), limits, now).unwrap();
        lifecycle::started(&mut full, number, "arn:aws:ecs:task/1".to_owned()).unwrap();
        let streams = (u64::from(number) - 1, 1 << 40);
        lifecycle::claim(&mut full, number, &hash("code"), "me", hash("token"), streams, now)
            .unwrap();
        lifecycle::report(&mut full, number, Phase::Plan, now + 30.seconds()).unwrap();
        if outcome == Outcome::Cancelled {
            lifecycle::cancel(&mut full, principal(), now);
        }
        lifecycle::end(&mut full, number, outcome, now + 40.seconds()).unwrap();
        full.version += 1;
        let saved = world.table.save_deployment_with(world.org, &full, &record_at(now)).await;
        assert_eq!(saved.unwrap(), Saved::Yes);
        assert_eq!(world.stored(full.id).await, full);
    }
}
