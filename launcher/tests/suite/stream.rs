//! Records of the table's stream, which Lambda may deliver twice and late.

use crate::concurrency::limit;
use crate::table_requests::HANDLE;
use crate::world::World;
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_launcher::stream::{Batch, serve};
use canyon_store::deployment_lists::Due;
use canyon_store::meter::Meter;
use serde_json::{Map, Value, json};

#[tokio::test]
async fn a_launch_takes_no_request_for_what_the_record_has_and_happens_once() {
    let mut world = World::new().await;
    let (org, script) = world.organization("acme").await;
    let meter = Meter::default();
    world.launcher.table = meter.watch(&world.table);
    let due = world.accept(org).await;
    let record = record_of(&world, due).await;
    meter.take();
    deliver(&world, &record).await;
    let taken = meter.take();
    assert_eq!(taken.requests(), 3 + HANDLE, "{taken:#?}");

    deliver(&world, &record).await;
    assert_eq!(script.count("start"), 1);
    assert_eq!(world.read(due).await.attempts.len(), 1);
}

#[tokio::test]
async fn an_old_record_of_a_deployment_that_runs_stops_no_check() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    limit(&world, org, "organization", 2).await;
    let check = world.accept_check(org).await;
    world.reconcile(check).await;
    let due = world.accept(org).await;
    let record = record_of(&world, due).await;
    for _ in 0..2 {
        deliver(&world, &record).await;
        for open in [due, check] {
            let read = world.read(open).await;
            assert!(read.open_attempt().is_some_and(|open| open.stop.is_none()), "{read:?}");
        }
    }
}

async fn deliver(world: &World, record: &Value) {
    let answer = serve(&world.launcher, Batch { records: vec![record.clone()] }).await;
    assert_eq!(answer.batch_item_failures.len(), 0);
}

/// The record of the stream of the deployment's last write.
async fn record_of(world: &World, due: Due) -> Value {
    let scan = world.embedded.client().scan().table_name("canyon").send().await.unwrap();
    let of_deployment = format!("#dep#{}", due.id);
    let item = scan.items().iter().find(|item| {
        item["pk"].as_s().unwrap().ends_with(&of_deployment) && item["sk"].as_s().unwrap() == "D"
    });
    let image: Map<String, Value> =
        item.unwrap().iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
    record(&Value::Object(image))
}

/// A record of the stream with this image.
pub(crate) fn record(image: &Value) -> Value {
    json!({
        "eventName": "INSERT", "awsRegion": "eu-central-1", "eventID": "1", "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_700_000_000, "SequenceNumber": "1", "SizeBytes": 1,
            "StreamViewType": "NEW_IMAGE", "Keys": {}, "NewImage": image,
        },
    })
}

/// A value in DynamoDB's JSON.
fn attribute(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::Bool(is_so) => json!({ "BOOL": is_so }),
        AttributeValue::Null(is_so) => json!({ "NULL": is_so }),
        AttributeValue::L(items) => json!({ "L": items.iter().map(attribute).collect::<Vec<_>>() }),
        AttributeValue::M(items) => {
            let items = items.iter().map(|(name, value)| (name.clone(), attribute(value)));
            json!({ "M": items.collect::<Map<_, _>>() })
        }
        other => panic!("no deployment has {other:?}"),
    }
}
