//! Requests, write units and item size of one deployment.
//!
//! On the embedded table only: DynamoDB Local counts index units of transactions differently than
//! DynamoDB bills them (see `metering.rs`).

use crate::world::{
    World, at, environment, hash, id, project, queued, raw, record, record_at, runner,
};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::{Deployment, ResourceCounts};
use canyon_domain::failure::Phase;
use canyon_domain::fetched_module::FetchedModule;
use canyon_domain::lifecycle;
use canyon_store::conditional::Item;
use canyon_store::deployment_item::Wake;
use canyon_store::meter::{Meter, Reading};
use canyon_store::{keys, outcome::Saved};
use jiff::ToSpan;

/// The size of an item by the rules of the developer guide ("Amazon DynamoDB item sizes and
/// formats"): names and texts by their UTF-8 bytes, numbers by half their digits and one or two,
/// lists and maps by 3 and one for each element.
fn size(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number.len().div_ceil(2) + 1,
        AttributeValue::L(list) => {
            3 + list.iter().map(|value| 1 + value_size(value)).sum::<usize>()
        }
        AttributeValue::M(map) => 3 + map.len() + size(map),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        other => panic!("no item has {other:?}"),
    }
}

async fn item_bytes(world: &World, of: &Deployment) -> usize {
    let key = keys::deployment(world.org, of.id);
    size(&raw(&world.table, &key).await) + "pk".len() + key.pk.len() + "sk".len() + key.sk.len()
}

/// The steps of a deployment from its acceptance to its end, each with its cost and the item's size
/// in bytes after it.
async fn all_steps(
    world: &World,
    plain: &World,
    meter: &Meter,
) -> Vec<(&'static str, Reading, usize)> {
    let mut steps = Vec::new();
    let (project, env) = (id("payments/eu/api"), id("production"));
    let found = plain.table.environment(plain.org, &project, &env).await.unwrap().unwrap();
    let mut deployment = queued(&found, 1);
    meter.take();
    world.accept(&deployment).await;
    steps.push(("accept", meter.take(), item_bytes(plain, &deployment).await));

    deployment = world.launch(deployment.id, at(2)).await.unwrap();
    steps.push(("launch", meter.take(), item_bytes(plain, &deployment).await));

    let claimant = uuid::Uuid::new_v4().simple().to_string();
    let (code, token) = (hash("code"), hash("token"));
    let mut deployment = world.stored(deployment.id).await;
    lifecycle::claim(&mut deployment, 1, &code, claimant.as_str(), token, (0, 0), at(3)).unwrap();
    steps.push((
        "claim",
        save(world, &mut deployment, meter).await,
        item_bytes(plain, &deployment).await,
    ));

    let mut deployment = world.stored(deployment.id).await;
    let now = at(3) + 5.seconds();
    let commit = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567".parse().unwrap();
    deployment.record_fetched(1, FetchedModule::new(Some(commit), Some(Vec::new())));
    assert!(lifecycle::report(&mut deployment, 1, Phase::Apply, now).unwrap());
    steps.push((
        "report",
        save(world, &mut deployment, meter).await,
        item_bytes(plain, &deployment).await,
    ));

    let mut deployment = world.stored(deployment.id).await;
    deployment.counts = Some(ResourceCounts { total: Some(30), added: 30, changed: 0, removed: 0 });
    deployment.kept.outputs = true;
    lifecycle::end(&mut deployment, 1, Outcome::Succeeded, at(40)).unwrap();
    deployment.version += 1;
    let (org, record) = (world.org, record_at(at(40)));
    let ended = world.table.end_deployment(org, &deployment, at(40), Some(&record)).await;
    assert_eq!(ended.unwrap(), Saved::Yes);
    steps.push(("end", meter.take(), item_bytes(plain, &deployment).await));
    steps
}

async fn save(world: &World, deployment: &mut Deployment, meter: &Meter) -> Reading {
    deployment.version += 1;
    let saved = world.table.save_deployment(world.org, deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    meter.take()
}

#[tokio::test]
async fn a_short_deployment_takes_12_requests_26_write_units_and_less_than_a_kilobyte() {
    let (_folder, table) = crate::peers::dynoxide().await;
    let plain = World::new(table).await;
    let World { table, org } = &plain;
    let mut production = environment("payments/eu/api", "production");
    production.runner_id = id("payments-eu-west-1");
    table.create_project(*org, &project("payments/eu/api"), &record()).await.unwrap();
    table.create_runner(*org, &runner("payments-eu-west-1", "ecs"), &record()).await.unwrap();
    table.create_environment(*org, &production, &record()).await.unwrap();
    let meter = Meter::default();
    let watched = World { table: meter.watch(table), org: *org };

    let steps = all_steps(&watched, &plain, &meter).await;
    for (step, reading, bytes) in &steps {
        let (requests, units) = (reading.requests(), reading.write_units());
        println!("{step}: {requests} requests, {units} write units, then {bytes} bytes");
    }
    let requests: u64 = steps.iter().map(|(_, reading, _)| reading.requests()).sum();
    let units: f64 = steps.iter().map(|(_, reading, _)| reading.write_units()).sum();
    assert!(requests <= 12, "{requests} requests");
    assert!(units <= 26.0, "{units} write units");
    for (step, _, bytes) in &steps {
        assert!(*bytes < 1_024, "after {step} it has {bytes} bytes");
    }
}
