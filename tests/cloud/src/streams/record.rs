//! One record, as Lambda delivers it.

use serde_json::{Value, json};
use std::time::Instant;

/// A record on its way.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The member of `Records` that the function gets.
    pub(super) event: Value,
    /// The same as number: what is lowest is decided on.
    pub(super) sequence: u128,
    /// Its item: order is kept for each.
    pub(super) item: String,
    /// When it was read, and when that was in words.
    pub(super) arrived: Instant,
    pub(super) arrived_at: String,
    /// How long it is as JSON.
    pub(super) length: usize,
}

/// What every record of a stream has in common.
pub(super) struct Origin {
    pub(super) stream_arn: String,
    pub(super) region: String,
}

impl Origin {
    /// A record of `GetRecords`, as Lambda passes it on. `inserted` counts those that were put in after the
    /// one with the same number.
    pub(super) fn record(&self, mut given: Value, number: u128, inserted: u128) -> Record {
        // Between two numbers of DynamoDB Local there must be room for what tests put in, and the numbers of
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

/// Fills in what a record that a test made up lacks.
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

/// A record that wakes the function and that nobody can read.
pub(super) fn poison() -> Value {
    let key = json!({"pk": {"N": "13"}, "sk": {"S": uuid::Uuid::new_v4().to_string()}});
    let mut image = key.clone();
    image["wake"] = json!({"BOOL": true});
    json!({"dynamodb": {"Keys": key, "NewImage": image}})
}
