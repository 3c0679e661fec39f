//! Conditional writes have one winner, and a lost race is an answer.

use crate::items::{get, item, put, s};
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use canyon_store::{Table, conditional::condition_outcome};

on_each_table!(
    a_failed_condition_is_an_answer_that_shows_the_existing_item,
    of_16_writers_of_one_item_exactly_one_wins,
    an_absent_table_is_an_error_that_names_the_operation,
);

async fn a_failed_condition_is_an_answer_that_shows_the_existing_item(table: Table) {
    let create = |state| {
        table
            .client()
            .put_item()
            .table_name(table.name())
            .set_item(Some(item("a/1", &[("state", state)])))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
    };
    condition_outcome("create", "a/1", create("first").await).unwrap().unwrap();
    let refused = condition_outcome("create", "a/1", create("second").await).unwrap().unwrap_err();
    assert_eq!(refused.item, Some(item("a/1", &[("state", "first")])));
    assert_eq!(get(&table, "a/1").await, Some(item("a/1", &[("state", "first")])));
}

async fn of_16_writers_of_one_item_exactly_one_wins(table: Table) {
    put(&table, item("job/1", &[("state", "queued")])).await;
    let writers = (0..16).map(|writer| {
        let table = table.clone();
        tokio::spawn(async move {
            let claim = table
                .client()
                .update_item()
                .table_name(table.name())
                .set_key(Some(item("job/1", &[])))
                .update_expression("SET #s = :running, holder = :me")
                .condition_expression("#s = :queued")
                .expression_attribute_names("#s", "state")
                .expression_attribute_values(":queued", s("queued"))
                .expression_attribute_values(":running", s("running"))
                .expression_attribute_values(":me", s(&writer.to_string()))
                .send();
            let won = condition_outcome("claim", "job/1", claim.await).unwrap().is_ok();
            won.then(|| writer.to_string())
        })
    });
    let mut winners = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        winners.extend(writer.await.unwrap());
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(get(&table, "job/1").await.unwrap()["holder"], s(&winners[0]));
}

async fn an_absent_table_is_an_error_that_names_the_operation(table: Table) {
    let put = table.client().put_item().table_name("nowhere").set_item(Some(item("a/1", &[])));
    let error = condition_outcome("create runner", "my-runner", put.send().await).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        error.to_string(),
        "could not create runner `my-runner`: the store refused the request"
    );
    assert!(cause.starts_with("ResourceNotFoundException: "), "{cause}");
    assert!(!error.is_retryable());
}
