//! The meter counts the same on every kind of table.

use crate::items::{create, get, item, put};
use canyon_store::{Table, meter::Meter};

on_each_table!(requests_and_units_are_counted_by_operation);

async fn requests_and_units_are_counted_by_operation(table: Table) {
    let meter = Meter::default();
    let watched = meter.watch(&table);
    put(&table, item("unwatched/1", &[])).await;
    assert_eq!(meter.take().requests(), 0);

    put(&watched, item("a/1", &[("body", &"x".repeat(1_500))])).await;
    get(&watched, "a/1").await;
    let reading = meter.take();
    assert_eq!((reading.requests(), reading.write_units(), reading.read_units()), (2, 2.0, 1.0));

    let due = [("gsi2pk", "due"), ("gsi2sk", "1")];
    let items = vec![create(&watched, item("b/1", &due)), create(&watched, item("b/2", &[]))];
    watched.transact("accept", "b", items).await.unwrap().unwrap();
    let reading = meter.take();
    assert_eq!(reading.requests(), 1, "{reading:?}");
    // Two for each of two small items and one for the index entry. DynamoDB Local counts 12: it
    // bills every item of a transaction in every index (2.6.1).
    assert!([5.0, 12.0].contains(&reading.write_units()), "{reading:?}");
}
