//! `PutEvents`: the actions that it needs, and the events that the bus accepted.

use super::Account;
use super::call::Call;
use super::needs::Need;
use serde_json::{Value, json};
use std::sync::Arc;

/// An event that the bus accepted.
#[derive(Clone, Debug)]
pub struct PutEntry {
    /// The function that put it.
    pub function: String,
    /// The id in the answer.
    pub id: String,
    /// The bus, by name or ARN.
    pub bus: String,
    /// The entry as it was in the request: `Source`, `DetailType`, `Detail` and so on.
    pub entry: Value,
}

/// Called for each event that the bus accepted.
pub type PutEventsHook = Arc<dyn Fn(PutEntry) + Send + Sync>;

pub(super) fn needs(call: &Call, account: &Account) -> Vec<Need> {
    let action = format!("events:{}", call.operation);
    let body = call.json();
    let Some(entries) = body["Entries"].as_array().filter(|_| call.operation == "PutEvents") else {
        return vec![Need::new(action, "*")];
    };
    let need = |entry: &Value| {
        let bus = bus_arn(bus_of(entry), account);
        let text = |name: &str| vec![entry[name].as_str().unwrap_or_default().to_owned()];
        Need::new(action.clone(), bus)
            .with("events:source", text("Source"))
            .with("events:detail-type", text("DetailType"))
    };
    entries.iter().map(need).collect()
}

fn bus_of(entry: &Value) -> &str {
    entry["EventBusName"].as_str().unwrap_or("default")
}

fn bus_arn(bus: &str, account: &Account) -> String {
    if bus.starts_with("arn:") {
        return bus.to_owned();
    }
    format!("arn:aws:events:{}:{}:event-bus/{bus}", account.region, account.id)
}

/// The entries that got an id in the answer; an entry with an error code was not accepted.
pub(super) fn taken(function: &str, call: &Call, answer: &[u8]) -> Vec<PutEntry> {
    let (body, answer) = (call.json(), serde_json::from_slice(answer).unwrap_or(Value::Null));
    let entries = body["Entries"].as_array().into_iter().flatten();
    let answers = answer["Entries"].as_array().into_iter().flatten();
    let both = entries.zip(answers).filter_map(|(entry, answer)| {
        let id = answer["EventId"].as_str()?.to_owned();
        let (function, bus) = (function.to_owned(), bus_of(entry).to_owned());
        Some(PutEntry { function, id, bus, entry: entry.clone() })
    });
    both.collect()
}

/// Status 200 with failed entries: an answer that a caller easily mistakes for success.
pub(super) fn all_failed(call: &Call) -> Value {
    let body = call.json();
    let count = body["Entries"].as_array().map_or(0, Vec::len);
    let failed = json!({"ErrorCode": "InternalFailure", "ErrorMessage": "Internal failure"});
    json!({"FailedEntryCount": count, "Entries": vec![failed; count]})
}
