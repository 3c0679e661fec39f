//! What a write request makes due, for a process that makes all writes itself. On AWS the table's stream tells it.

use crate::deployment_item::from_stream_image;
use crate::deployment_lists::Due;
use crate::keys;
use crate::table::GSI2;
use canyon_domain::deployment::Deployment;
use jiff::Timestamp;
use serde::Deserialize;
use serde_dynamo::{AttributeValue, Item};

/// What a durable write request made due.
#[derive(Debug)]
pub struct DueWrites {
    /// The deployments, as the request has written them. Other writes may have followed.
    pub deployments: Vec<(Due, Deployment)>,
    /// Whether there may be more: a requested check of a runner, or what this version cannot parse. A search finds it.
    pub has_others: bool,
}

/// A `PutItem` or a `TransactWriteItems`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request {
    item: Option<Item>,
    #[serde(default)]
    transact_items: Vec<Action>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Action {
    put: Option<Put>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Put {
    item: Item,
}

impl DueWrites {
    /// Reads a request for which [`write_requests::makes_due`](crate::write_requests::makes_due) is true at `now`.
    pub fn of(request: &[u8], now: Timestamp) -> Self {
        let mut made = Self { deployments: Vec::new(), has_others: false };
        let Ok(Request { item, transact_items }) = serde_json::from_slice(request) else {
            return Self { has_others: true, ..made };
        };
        let puts = transact_items.into_iter().filter_map(|action| Some(action.put?.item));
        let now = keys::due_at(now);
        for item in item.into_iter().chain(puts).filter(|item| is_due(item, &now)) {
            match from_stream_image(item) {
                Ok((org, deployment)) => {
                    made.deployments.push((Due { org, id: deployment.id }, deployment));
                }
                Err(_) => made.has_others = true,
            }
        }
        made.has_others |= made.deployments.is_empty();
        made
    }
}

fn is_due(item: &Item, now: &str) -> bool {
    let key = item.inner().get(GSI2.sk);
    matches!(key, Some(AttributeValue::S(key)) if key.get(..now.len()).unwrap_or(key) <= now)
}
