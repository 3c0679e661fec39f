//! The envelope of an event.

use crate::front::PutEntry;
use jiff::Timestamp;
use serde_json::{Value, json};

/// An entry of `PutEvents`, as rules see it.
pub(super) fn from_entry(put: &PutEntry) -> Value {
    let entry = &put.entry;
    // `Detail` is JSON in a string; moto has refused anything else.
    let detail = entry["Detail"].as_str().unwrap_or("{}");
    let mut event = json!({
        "id": put.id,
        "source": entry["Source"],
        "detail-type": entry["DetailType"],
        "resources": entry["Resources"].as_array().cloned().unwrap_or_default(),
        "detail": serde_json::from_str::<Value>(detail).unwrap_or_default(),
    });
    if let Some(time) = entry["Time"].as_f64() {
        // "The time stamp of the event, per RFC3339", in seconds on the wire.
        let text = format!("{time:.0}");
        let time = text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        event["time"] = json!(time.map(|time| time.to_string()));
    }
    event
}

/// Fills in the missing members.
pub(super) fn complete(mut event: Value, account: &str, region: &str) -> Value {
    let defaults = json!({
        "version": "0",
        "id": uuid::Uuid::new_v4().to_string(),
        "detail-type": "",
        "source": "",
        "account": account,
        "time": format!("{:.0}", Timestamp::now()),
        "region": region,
        "resources": [],
        "detail": {},
    });
    for (name, value) in defaults.as_object().into_iter().flatten() {
        if event.get(name).is_none_or(Value::is_null) {
            event[name.as_str()] = value.clone();
        }
    }
    event
}
