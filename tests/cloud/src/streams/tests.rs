mod delivery;
mod mapping;

use super::*;
use crate::stack::EventSourceMapping;
use crate::target::TargetError;
use async_trait::async_trait;
use serde_json::json;

type Answer = Box<dyn Fn(&[Invoked]) -> Result<String, TargetError> + Send + Sync>;

/// A record that a function received: its sequence number and the text of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Invoked {
    sequence: String,
    key: String,
}

/// A function that records each batch, and answers as the test says.
struct Script {
    batches: Mutex<Vec<Vec<Invoked>>>,
    payloads: Mutex<Vec<Value>>,
    answer: Answer,
    chance: Chance,
    /// The duration of an invocation in milliseconds.
    slowness: AtomicU64,
}

impl Script {
    fn new(
        answer: impl Fn(&[Invoked]) -> Result<String, TargetError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let answer = Box::new(answer);
        Arc::new(Self {
            batches: Mutex::default(),
            payloads: Mutex::default(),
            answer,
            chance: Chance::new(9),
            slowness: AtomicU64::new(0),
        })
    }

    /// A function that accepts everything.
    fn content() -> Arc<Self> {
        Self::new(|_| Ok(json!({"batchItemFailures": []}).to_string()))
    }

    /// A function that reports the first record with one of these keys.
    fn choking(on: &'static [&'static str]) -> Arc<Self> {
        Self::new(move |batch| {
            let failed = batch.iter().find(|record| on.contains(&record.key.as_str()));
            let failed: Vec<_> =
                failed.iter().map(|record| json!({"itemIdentifier": record.sequence})).collect();
            Ok(json!({"batchItemFailures": failed}).to_string())
        })
    }

    /// The keys of each batch.
    fn keys(&self) -> Vec<Vec<String>> {
        let batches = lock(&self.batches);
        batches.iter().map(|batch| batch.iter().map(|one| one.key.clone()).collect()).collect()
    }
}

#[async_trait]
impl Target for Script {
    async fn invoke(&self, payload: Vec<u8>) -> Result<Vec<u8>, TargetError> {
        let event: Value = serde_json::from_slice(&payload).unwrap();
        let batch = event["Records"].as_array().unwrap().iter().map(|record| {
            let change = &record["dynamodb"];
            let key = change["Keys"]["pk"].as_object().unwrap().values().next().unwrap();
            Invoked {
                sequence: change["SequenceNumber"].as_str().unwrap().to_owned(),
                key: key.as_str().unwrap().to_owned(),
            }
        });
        let batch = batch.collect::<Vec<_>>();
        let most = Duration::from_millis(self.slowness.load(Ordering::SeqCst));
        tokio::time::sleep(self.chance.up_to(most)).await;
        let answer = (self.answer)(&batch);
        lock(&self.batches).push(batch);
        lock(&self.payloads).push(event);
        answer.map(String::into_bytes)
    }
}

/// The mapping of the template, with the test's changes.
fn mapping(change: &Value) -> EventSourceMapping {
    let mut mapping = json!({
        "EventSourceArn": "arn:aws:dynamodb:eu-west-1:123456789012:table/canyon/stream/1",
        "BatchSize": 10, "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 2,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:eu-west-1:123456789012:dead"}},
        "UUID": "passed over",
    });
    for (name, value) in change.as_object().unwrap() {
        mapping[name.as_str()] = value.clone();
    }
    serde_json::from_value(mapping).unwrap()
}
