//! One record, as Lambda delivers it.

use serde_json::{Value, json};
use std::time::Instant;

/// A record that is being delivered.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The member of `Records` for the function.
    pub(super) event: Value,
    /// The sequence number, to find the lowest one.
    pub(super) sequence: u128,
    /// Its item: the order is kept for each item.
    pub(super) item: String,
    /// When it was read, as an instant and as text.
    pub(super) arrived: Instant,
    pub(super) arrived_at: String,
    /// Its length as JSON.
    pub(super) length: usize,
}

/// The facts that all records of a stream share.
pub(super) struct Origin {
    pub(super) stream_arn: String,
    pub(super) region: String,
}

impl Origin {
    /// A record of `GetRecords`, as Lambda passes it on. `inserted` counts the records that were inserted
    /// after the one with the same number.
    pub(super) fn record(&self, mut given: Value, number: u128, inserted: u128) -> Record {
        // Between two numbers of DynamoDB Local there must be room for inserted records, and the numbers of
        // AWS do not begin with 0.
        let sequence = (10_u128.pow(20) + number) * 1_000 + inserted;
        let change = &mut given["dynamodb"];
        let created = change["ApproximateCreationDateTime"].as_f64().unwrap_or_default();
        change["ApproximateCreationDateTime"] = whole_seconds(created);
        change["SequenceNumber"] = json!(sequence.to_string());
        given["awsRegion"] = json!(self.region);
        given["eventSourceARN"] = json!(self.stream_arn);
        Record {
            item: given["dynamodb"]["Keys"].to_string(),
            sequence,
            arrived: Instant::now(),
            arrived_at: crate::chance::now(),
            length: given.to_string().len(),
            event: given,
        }
    }
}

fn whole_seconds(seconds: f64) -> Value {
    let text = format!("{seconds:.0}");
    json!(text.parse::<u64>().unwrap_or_default())
}

/// The number that `DynamoDB` Local gave a record.
pub(super) fn number(given: &Value) -> u128 {
    let text = given["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Fills in the missing members of an inserted record.
pub(super) fn complete(mut given: Value) -> Value {
    let now = jiff::Timestamp::now().as_second();
    let defaults = json!({
        "eventID": uuid::Uuid::new_v4().simple().to_string(),
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "dynamodb": {},
    });
    fill(&mut given, &defaults);
    let size = given["dynamodb"].to_string().len();
    let defaults = json!({
        "ApproximateCreationDateTime": now, "Keys": {}, "SizeBytes": size, "StreamViewType": "NEW_IMAGE",
    });
    fill(&mut given["dynamodb"], &defaults);
    given
}

fn fill(given: &mut Value, defaults: &Value) {
    for (name, value) in defaults.as_object().into_iter().flatten() {
        if given.get(name).is_none() {
            given[name.as_str()] = value.clone();
        }
    }
}

/// A record that wakes the function and that cannot be parsed.
pub(super) fn poison() -> Value {
    let key = json!({"pk": {"N": "13"}, "sk": {"S": uuid::Uuid::new_v4().to_string()}});
    let mut image = key.clone();
    image["wake"] = json!({"BOOL": true});
    json!({"dynamodb": {"Keys": key, "NewImage": image}})
}
