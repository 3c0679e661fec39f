//! An item that is too large is refused before it is written.

use crate::world::{World, everything, record, runner};
use canyon_store::item_size::MAX_ITEM;
use canyon_store::outcome::{Created, Saved};
use canyon_store::runners::RunnerRecord;
use canyon_store::{StoreError, Table};

on_each_table!(an_item_beyond_the_bound_is_refused_with_its_largest_part_and_nothing_is_written,);

/// A runner whose item has about so many bytes, and a few hundred more.
fn of_size(name: &str, version: u64, bytes: usize) -> RunnerRecord {
    RunnerRecord { definition: "x".repeat(bytes), version, ..runner(name, "local") }
}

fn assert_too_large<T: std::fmt::Debug>(result: Result<T, StoreError>, of: &str) {
    let error = result.unwrap_err();
    let StoreError::TooLarge { thing, part, bytes, .. } = &error else { panic!("{error:?}") };
    assert_eq!((thing.as_str(), part.as_str()), (of, "definition"));
    assert!((MAX_ITEM..MAX_ITEM + 1_000).contains(bytes), "{error}");
    assert!(!error.is_retryable());
}

async fn an_item_beyond_the_bound_is_refused_with_its_largest_part_and_nothing_is_written(
    table: Table,
) {
    let World { table, org } = World::new(table).await;
    let large = of_size("large", 1, MAX_ITEM - 1_000);
    assert_eq!(table.create_runner(org, &large, &record()).await.unwrap(), Created::Yes);
    let before = everything(&table).await;
    assert_too_large(
        table.create_runner(org, &of_size("new", 1, MAX_ITEM), &record()).await,
        "new",
    );
    let grown = of_size("large", 2, MAX_ITEM);
    assert_too_large(table.save_runner(org, &grown, None, &record()).await, "large");
    assert_eq!(everything(&table).await, before);
    let smaller = of_size("large", 2, 10);
    assert_eq!(table.save_runner(org, &smaller, None, &record()).await.unwrap(), Saved::Yes);
}
