//! A connection for reads, and what it answers.

use super::operations::{parse, serialize};
use dynoxide::actions::{batch_get_item, get_item, query, scan};
use dynoxide::storage::Storage;
use dynoxide::{AttributeValue, DynoxideError};
use futures::FutureExt as _;
use serde::Deserialize;
use std::borrow::Cow;

/// An operation that only reads, without isolation from writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    GetItem,
    Query,
    Scan,
    BatchGetItem,
}

impl Read {
    /// Parses the name of an operation of DynamoDB.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "GetItem" => Some(Self::GetItem),
            "Query" => Some(Self::Query),
            "Scan" => Some(Self::Scan),
            "BatchGetItem" => Some(Self::BatchGetItem),
            _ => None,
        }
    }

    /// Parses the request from `body` and returns the body of the answer.
    pub(super) fn run(self, storage: &Storage, body: &[u8]) -> Result<String, DynoxideError> {
        match self {
            Self::GetItem => match whole_item(storage, body) {
                Some(found) => Ok(found),
                None => serialize(&at_once(get_item::execute(storage, parse(body)?))?),
            },
            Self::Query => serialize(&at_once(query::execute(storage, parse(body)?))?),
            Self::Scan => serialize(&at_once(scan::execute(storage, parse(body)?))?),
            Self::BatchGetItem => {
                serialize(&at_once(batch_get_item::execute(storage, parse(body)?))?)
            }
        }
    }
}

/// The result of a function of dynoxide. They are asynchronous for its browser build alone, and never wait here.
fn at_once<T>(work: impl Future<Output = Result<T, DynoxideError>>) -> Result<T, DynoxideError> {
    let reason = "dynoxide has suspended a read, which this build of it never does";
    work.now_or_never()
        .unwrap_or_else(|| Err(DynoxideError::InternalServerError(reason.to_owned())))
}

/// A `GetItem` of a whole item, by far the most frequent request. One with any other member is not parsed.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct WholeItem<'a> {
    #[serde(borrow)]
    table_name: Cow<'a, str>,
    key: Key<'a>,
    #[serde(rename = "ConsistentRead")]
    _consistent_read: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key<'a> {
    #[serde(borrow)]
    pk: Text<'a>,
    #[serde(borrow)]
    sk: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text<'a> {
    #[serde(rename = "S", borrow)]
    text: Cow<'a, str>,
}

/// The maximum lengths of keys, in bytes (DynamoDB Developer Guide, "Quotas").
const MAX_PK: usize = 2_048;
const MAX_SK: usize = 1_024;

/// Answers a request for a whole item with the text that dynoxide has stored, which is JSON in DynamoDB's form. dynoxide itself
/// parses the table's definition and the item, and serializes the item again: half of its time for a request.
/// `None` if dynoxide must answer: to another request, a faulty key, or a table that does not exist.
fn whole_item(storage: &Storage, body: &[u8]) -> Option<String> {
    let WholeItem { table_name, key, .. } = serde_json::from_slice(body).ok()?;
    let stored_key = |of: Text<'_>, most: usize| {
        let text = of.text.into_owned();
        let key = Some(text).filter(|text| (1..=most).contains(&text.len()))?;
        AttributeValue::S(key).to_key_string()
    };
    let (pk, sk) = (stored_key(key.pk, MAX_PK)?, stored_key(key.sk, MAX_SK)?);
    let item = storage.get_item(&table_name, &pk, &sk).ok()?;
    Some(item.map_or_else(|| "{}".to_owned(), |item| format!(r#"{{"Item":{item}}}"#)))
}
