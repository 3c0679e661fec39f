//! Transactions write all or nothing, and report which conditions failed.

use crate::items::{create, get, item, put, s};
use aws_sdk_dynamodb::types::{
    ConditionCheck, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use canyon_store::Table;

on_each_table!(
    a_transaction_writes_all_of_its_items,
    a_cancelled_transaction_writes_nothing_and_names_each_failed_condition,
    transactions_that_contend_for_one_item_have_one_winner,
    a_counter_that_many_transactions_increment_loses_no_step,
);

async fn a_transaction_writes_all_of_its_items(table: Table) {
    let items = ["a/1", "a/2", "b/1"].map(|key| create(&table, item(key, &[("by", "tx")])));
    table.transact("accept", "a", items.into()).await.unwrap().unwrap();
    for key in ["a/1", "a/2", "b/1"] {
        assert_eq!(get(&table, key).await, Some(item(key, &[("by", "tx")])), "{key}");
    }
}

async fn a_cancelled_transaction_writes_nothing_and_names_each_failed_condition(table: Table) {
    put(&table, item("a/2", &[("by", "me")])).await;
    put(&table, item("a/4", &[])).await;
    let check = ConditionCheck::builder()
        .table_name(table.name())
        .set_key(Some(item("a/2", &[])))
        .condition_expression("attribute_not_exists(pk)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .unwrap();
    let items = vec![
        create(&table, item("a/1", &[])),
        TransactWriteItem::builder().condition_check(check).build(),
        create(&table, item("a/3", &[])),
        create(&table, item("a/4", &[])),
    ];
    let by = table.transact("accept", "a", items).await.unwrap().unwrap_err();
    assert_eq!(by.first(), 1);
    assert_eq!([0, 1, 2, 3].map(|index| by.includes(index)), [false, true, false, true]);
    assert_eq!(by.item(1), Some(&item("a/2", &[("by", "me")])));
    assert_eq!((get(&table, "a/1").await, get(&table, "a/3").await), (None, None));
}

async fn transactions_that_contend_for_one_item_have_one_winner(table: Table) {
    let contenders: Vec<_> = (0..8)
        .map(|n| {
            let table = table.clone();
            tokio::spawn(async move {
                let own = item(&format!("own/{n}"), &[]);
                let items = vec![create(&table, own), create(&table, item("shared/1", &[]))];
                table.transact("accept", "shared", items).await.unwrap().map_err(|by| by.first())
            })
        })
        .collect();
    let mut winners = 0;
    for (n, contender) in contenders.into_iter().enumerate() {
        let outcome = contender.await.unwrap();
        winners += usize::from(outcome.is_ok());
        assert_eq!(get(&table, &format!("own/{n}")).await.is_some(), outcome.is_ok(), "{n}");
        assert!(matches!(outcome, Ok(()) | Err(1)), "{outcome:?}");
    }
    assert_eq!(winners, 1);
}

/// Not on DynamoDB Local (2.6.1): it lets the second action see the first, where DynamoDB refuses
/// the request (API reference of `TransactWriteItems`: no two actions on one item).
#[tokio::test]
async fn a_transaction_that_names_an_item_twice_is_refused_at_once() {
    let (_folder, table) = crate::peers::dynoxide().await;
    let items = vec![create(&table, item("a/1", &[])), create(&table, item("a/1", &[]))];
    let error = table.transact("accept", "a", items).await.unwrap_err();
    assert!(!error.is_retryable(), "{error:?}");
    assert_eq!(get(&table, "a/1").await, None);
}

async fn a_counter_that_many_transactions_increment_loses_no_step(table: Table) {
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let table = table.clone();
            tokio::spawn(async move {
                for step in 0..5 {
                    let increment = Update::builder()
                        .table_name(table.name())
                        .set_key(Some(item("count/1", &[])))
                        .update_expression("ADD steps :one")
                        .expression_attribute_values(":one", number(1))
                        .build()
                        .unwrap();
                    let items = vec![
                        TransactWriteItem::builder().update(increment).build(),
                        create(&table, item(&format!("step/{n}-{step}"), &[("at", "now")])),
                    ];
                    table.transact("increment", "count", items).await.unwrap().unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(get(&table, "count/1").await.unwrap()["steps"], number(40));
    assert_eq!(get(&table, "step/7-4").await.unwrap()["at"], s("now"));
}

fn number(n: u32) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::N(n.to_string())
}
