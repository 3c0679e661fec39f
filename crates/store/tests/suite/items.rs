//! Small items for the tests below the repository functions.

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use canyon_store::Table;
use canyon_store::conditional::Item;

pub(crate) fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// `item("a/1", &[("state", "queued")])` has `pk = a`, `sk = 1` and a state.
pub(crate) fn item(key: &str, attributes: &[(&str, &str)]) -> Item {
    let (pk, sk) = key.split_once('/').unwrap();
    let key = [("pk", pk), ("sk", sk)];
    key.iter().chain(attributes).map(|(name, value)| ((*name).to_owned(), s(value))).collect()
}

pub(crate) async fn put(table: &Table, item: Item) {
    let put = table.client().put_item().table_name(table.name()).set_item(Some(item));
    put.send().await.unwrap();
}

pub(crate) async fn get(table: &Table, key: &str) -> Option<Item> {
    let get = table.client().get_item().table_name(table.name()).set_key(Some(item(key, &[])));
    get.consistent_read(true).send().await.unwrap().item
}

/// Part of a transaction: creates `item`, on condition that it does not exist.
pub(crate) fn create(table: &Table, item: Item) -> TransactWriteItem {
    let put = Put::builder()
        .table_name(table.name())
        .set_item(Some(item))
        .condition_expression("attribute_not_exists(pk)")
        .build()
        .unwrap();
    TransactWriteItem::builder().put(put).build()
}
