//! How large an item is, judged before it is written.
//!
//! DynamoDB refuses an item of more than 400 KB (409,600 bytes) with a `ValidationException` that names neither the item nor
//! the attribute. The rules are those of its Developer Guide, "Item sizes and formats". The bound is lower: the keys of
//! indexes and the counters that Canyon adds to an item later must fit too.

use crate::StoreError;
use crate::conditional::Item;
use crate::keys::{self, Key};
use aws_sdk_dynamodb::types::AttributeValue;

/// The most bytes of an item.
pub const MAX_ITEM: usize = 350 * 1024;

/// Passes if `item`, which is to be written at `key`, is not too large.
pub(crate) fn check(operation: &'static str, key: &Key, item: &Item) -> Result<(), StoreError> {
    let bytes = of(item);
    if bytes <= MAX_ITEM {
        return Ok(());
    }
    let largest = item.iter().max_by_key(|(_, value)| size(value));
    let part = largest.map(|(name, _)| name.clone()).unwrap_or_default();
    let deployment = keys::parse_deployment(&key.pk).map(|(_, id)| id.to_string());
    let thing = deployment.unwrap_or_else(|| key.sk.clone());
    Err(StoreError::TooLarge { operation, thing, part, bytes })
}

/// The bytes of an item, at most.
pub(crate) fn of(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + size(value)).sum()
}

/// Of a number at most: DynamoDB packs two digits into a byte.
fn size(value: &AttributeValue) -> usize {
    /// A list or map costs so much, and each entry a byte.
    const NEST: usize = 3;
    let texts = |texts: &[String]| texts.iter().map(String::len).sum();
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.len() + 1,
        AttributeValue::Ss(set) | AttributeValue::Ns(set) => texts(set),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Bs(set) => set.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(list) => NEST + list.iter().map(|value| 1 + size(value)).sum::<usize>(),
        AttributeValue::M(map) => {
            NEST + map.iter().map(|(name, value)| 1 + name.len() + size(value)).sum::<usize>()
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_dynamodb::primitives::Blob;
    use std::collections::HashMap;

    #[test]
    fn a_value_is_as_large_as_the_developer_guide_says() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let map = HashMap::from([("name".to_owned(), text("abc"))]);
        let cases = [
            (text("Größe"), 8),
            (AttributeValue::N("1234".to_owned()), 5),
            (AttributeValue::Bool(true), 1),
            (AttributeValue::Null(true), 1),
            (AttributeValue::B(Blob::new([0; 9])), 9),
            (AttributeValue::Ss(vec!["ab".to_owned(), "c".to_owned()]), 3),
            (AttributeValue::L(vec![]), 3),
            (AttributeValue::L(vec![text("a"), text("b")]), 3 + 2 * 3),
            (AttributeValue::M(map), 3 + 1 + 4 + 4),
        ];
        for (value, expected) in cases {
            assert_eq!(size(&value), expected, "{value:?}");
        }
    }
}
