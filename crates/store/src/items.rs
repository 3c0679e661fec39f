//! Conversion between items and Rust values, and builders of transaction parts.

use crate::conditional::Item;
use crate::keys::Key;
use crate::table::{PK, SK};
use crate::{StoreError, Table, item_size};
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashMap;

/// A condition expression with its names and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    pub(crate) expression: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl Condition {
    /// The item does not exist.
    pub(crate) fn absent() -> Self {
        Self { expression: format!("attribute_not_exists({PK})"), ..Self::default() }
    }

    /// The item exists.
    pub(crate) fn present() -> Self {
        Self { expression: format!("attribute_exists({PK})"), ..Self::default() }
    }

    /// The item has this version. Neither `version` nor `uses` is a reserved word of DynamoDB.
    pub(crate) fn version(version: u64) -> Self {
        let values = HashMap::from([(":v".to_owned(), number(version))]);
        Self { expression: "version = :v".to_owned(), names: HashMap::new(), values }
    }

    /// The item is the one that was created at this time, and has this version. An object of a name that was deleted and
    /// created again may have the version of its predecessor.
    pub(crate) fn unchanged(created_at: Timestamp, version: u64) -> Self {
        let mut condition = Self::version(version);
        condition.expression.push_str(" AND created_at = :c");
        condition.values.insert(":c".to_owned(), text(created_at.to_string()));
        condition
    }

    /// The item is the one that was created at this time.
    pub(crate) fn created(created_at: Timestamp) -> Self {
        let values = HashMap::from([(":c".to_owned(), text(created_at.to_string()))]);
        Self { expression: "created_at = :c".to_owned(), names: HashMap::new(), values }
    }

    /// The item exists and nothing refers to it.
    pub(crate) fn unused() -> Self {
        let values = HashMap::from([(":zero".to_owned(), number(0))]);
        let expression =
            format!("attribute_exists({PK}) AND (attribute_not_exists(uses) OR uses = :zero)");
        Self { expression, names: HashMap::new(), values }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "numbers, which are copied")]
pub(crate) fn number(n: impl ToString) -> AttributeValue {
    AttributeValue::N(n.to_string())
}

pub(crate) fn text(s: impl Into<String>) -> AttributeValue {
    AttributeValue::S(s.into())
}

pub(crate) fn key_item(key: &Key) -> Item {
    HashMap::from([(PK.to_owned(), text(&key.pk)), (SK.to_owned(), text(&key.sk))])
}

/// `value` as an item at `key`.
///
/// # Errors
///
/// [`StoreError::TooLarge`] for more than an item holds.
pub(crate) fn to_item(
    operation: &'static str,
    key: &Key,
    value: &impl Serialize,
) -> Result<Item, StoreError> {
    let mut item: Item = serde_dynamo::to_item(value)
        .map_err(|source| StoreError::corrupt(operation, &key.pk, source))?;
    item.extend(key_item(key));
    item_size::check(operation, key, &item)?;
    Ok(item)
}

/// Parses the value that an item holds; ignores keys and other attributes.
pub(crate) fn from_item<T: DeserializeOwned>(
    operation: &'static str,
    item: Item,
) -> Result<T, StoreError> {
    let key = match (item.get(PK), item.get(SK)) {
        (Some(AttributeValue::S(pk)), Some(AttributeValue::S(sk))) => format!("{pk} {sk}"),
        _ => String::new(),
    };
    serde_dynamo::from_item(item).map_err(|source| StoreError::corrupt(operation, key, source))
}

/// Part of a transaction: writes `item` if `condition` holds.
pub(crate) fn put(table: &Table, item: Item, condition: Condition) -> TransactWriteItem {
    let put = Put::builder()
        .table_name(table.name())
        .set_item(Some(item))
        .condition_expression(condition.expression)
        .set_expression_attribute_names(non_empty(condition.names))
        .set_expression_attribute_values(non_empty(condition.values))
        .build();
    // `build` fails only without a table name or an item, and both are given.
    TransactWriteItem::builder().set_put(put.ok()).build()
}

/// Part of a transaction: deletes the item at `key` if `condition` holds; the default condition always does.
pub(crate) fn delete(table: &Table, key: &Key, condition: Condition) -> TransactWriteItem {
    let delete = Delete::builder()
        .table_name(table.name())
        .set_key(Some(key_item(key)))
        .set_condition_expression(
            (!condition.expression.is_empty()).then_some(condition.expression),
        )
        .set_expression_attribute_names(non_empty(condition.names))
        .set_expression_attribute_values(non_empty(condition.values))
        .build();
    TransactWriteItem::builder().set_delete(delete.ok()).build()
}

/// Part of a transaction: adds `change` to the use count of the existing item at `key`.
pub(crate) fn count_use(table: &Table, key: &Key, change: i64) -> TransactWriteItem {
    let update = Update::builder()
        .table_name(table.name())
        .set_key(Some(key_item(key)))
        .update_expression("ADD uses :n")
        .condition_expression(Condition::present().expression)
        .expression_attribute_values(":n", number(change))
        .build();
    TransactWriteItem::builder().set_update(update.ok()).build()
}

fn non_empty<K, V>(map: HashMap<K, V>) -> Option<HashMap<K, V>> {
    (!map.is_empty()).then_some(map)
}

impl Table {
    /// The value at `key`, read consistently. One read unit for each 4 KB.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        let item = self.read_item(operation, key).await?;
        item.map(|item| from_item(operation, item)).transpose()
    }

    /// The item at `key`, read like [`Table::read`].
    pub(crate) async fn read_item(
        &self,
        operation: &'static str,
        key: &Key,
    ) -> Result<Option<Item>, StoreError> {
        // The SDK's future has kilobytes, which would be part of each caller's future.
        let get = async || Box::pin(self.get_item(operation, key)).await;
        match self.recent_reads() {
            Some(recent) => recent.or_read(key, get).await,
            None => get().await,
        }
    }

    async fn get_item(
        &self,
        operation: &'static str,
        key: &Key,
    ) -> Result<Option<Item>, StoreError> {
        let request = self.client().get_item().table_name(self.name());
        let output = request.set_key(Some(key_item(key))).consistent_read(true).send().await;
        Ok(output.map_err(|error| StoreError::sdk(operation, &key.sk, error))?.item)
    }
}
