//! Any number of concurrent callers can ensure the table, repeatedly.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use canyon_store::{StoreError, Table};

on_each_table!(
    concurrent_and_repeated_calls_of_ensure_are_safe,
    a_table_of_another_shape_is_refused_by_name,
);

async fn concurrent_and_repeated_calls_of_ensure_are_safe(table: Table) {
    table.ensure().await.unwrap();
    let fresh = Table::new(table.client().clone(), format!("{}-race", table.name()));
    let callers: Vec<_> = (0..6)
        .map(|_| {
            let fresh = fresh.clone();
            tokio::spawn(async move { fresh.ensure().await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    let ttl = fresh.client().describe_time_to_live().table_name(fresh.name()).send().await.unwrap();
    let ttl = ttl.time_to_live_description.unwrap();
    assert_eq!(ttl.attribute_name(), Some("ttl"));
}

async fn a_table_of_another_shape_is_refused_by_name(table: Table) {
    let id = AttributeDefinition::builder()
        .attribute_name("id")
        .attribute_type(ScalarAttributeType::S)
        .build();
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build();
    let other = table.client().create_table().table_name("another-shape");
    let other = other.billing_mode(BillingMode::PayPerRequest);
    other.attribute_definitions(id.unwrap()).key_schema(key.unwrap()).send().await.unwrap();
    let error = Table::new(table.client().clone(), "another-shape").ensure().await.unwrap_err();
    assert!(matches!(error, StoreError::WrongShape { .. }), "{error:?}");
    assert!(error.to_string().contains("`another-shape`"), "{error}");
}
