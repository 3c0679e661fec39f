//! Delivers a batch until it is accepted or given up.

use super::Shared;
use super::batch::Batch;
use super::record::Record;
use super::report::{self, Report};
use crate::chance::{lock, now};
use crate::target::TargetError;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Returns when the lane may continue.
pub(super) async fn deliver(records: Vec<Record>, shared: &Shared) {
    let mut batches = VecDeque::from([Batch { records, failures: 0 }]);
    while let Some(mut batch) = batches.pop_front() {
        expire(&mut batch, shared);
        if batch.records.is_empty() {
            continue;
        }
        match invoke(&batch, shared).await {
            Report::Taken => repeat(&batch, shared).await,
            Report::NotStarted => {
                // "If Lambda is unable to invoke the function [...] it retries until the records expire or exceed
                // the maximum age": that does not count as an attempt.
                tokio::time::sleep(shared.scaled(FIRST_PAUSE)).await;
                batches.push_front(batch);
            }
            report => {
                shared.count(|counts| counts.failures += 1);
                again(batch, &report, &mut batches, shared).await;
            }
        }
    }
}

async fn invoke(batch: &Batch, shared: &Shared) -> Report {
    tokio::time::sleep(shared.disturbance().delay).await;
    shared.count(|counts| counts.invocations += 1);
    match shared.target.invoke(batch.payload()).await {
        Ok(answer) => report::read(&answer, shared.rules.partial, &batch.records),
        Err(TargetError::Failed(_)) => Report::Failed,
        Err(TargetError::NotStarted(_)) => Report::NotStarted,
    }
}

/// "Duplicate processing of records can occur": the result of the copy is ignored.
async fn repeat(batch: &Batch, shared: &Shared) {
    for _ in 1..shared.disturbance().copies {
        let _ = invoke(batch, shared).await;
    }
}

/// Decides what is retried next.
async fn again(mut batch: Batch, report: &Report, batches: &mut VecDeque<Batch>, shared: &Shared) {
    let before = batch.records.len();
    if let Report::From(checkpoint) = report {
        batch.records.retain(|record| record.sequence >= *checkpoint);
    }
    let progress = batch.records.len() < before;
    if shared.rules.bisect && progress {
        // "The batch is bisected at the returned sequence number, and Lambda retries only the remaining records."
        batches.push_front(batch);
    } else if shared.rules.bisect && batch.records.len() > 1 {
        // "If your invocation fails [...] the batch is bisected regardless of your ReportBatchItemFailures setting."
        let (front, back) = batch.halves();
        batches.push_front(back);
        batches.push_front(front);
    } else {
        batch.failures += 1;
        if shared.rules.retries.is_some_and(|retries| batch.failures > retries) {
            give_up(&batch.records, batch.failures, "RetryAttemptsExhausted", shared);
            return;
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << batch.failures.min(6).saturating_sub(1));
        tokio::time::sleep(shared.scaled(doubled.min(LONGEST_PAUSE))).await;
        batches.push_front(batch);
    }
}

/// Removes records that are too old to be retried.
fn expire(batch: &mut Batch, shared: &Shared) {
    let Some(age) = shared.rules.age else { return };
    let (young, old): (Vec<_>, Vec<_>) = std::mem::take(&mut batch.records)
        .into_iter()
        .partition(|one| one.arrived.elapsed() <= age);
    batch.records = young;
    if !old.is_empty() {
        give_up(&old, batch.failures, "RecordAgeExceeded", shared);
    }
}

/// The destination gets one message for a batch. It holds what is needed to find the records in the stream, but not
/// the records.
fn give_up(records: &[Record], invocations: u32, condition: &str, shared: &Shared) {
    let count = u64::try_from(records.len()).unwrap_or_default();
    shared.count(|counts| counts.discarded += count);
    let destination = shared.rules.destination.as_ref();
    if destination.is_some_and(|destination| (shared.may_send)(destination)) {
        lock(&shared.failed).push(message(records, invocations, condition, shared));
    }
}

fn message(records: &[Record], invocations: u32, condition: &str, shared: &Shared) -> Value {
    let first = records.iter().min_by_key(|record| record.sequence);
    let last = records.iter().max_by_key(|record| record.sequence);
    let sequence = |record: Option<&Record>| record.map(|record| record.sequence.to_string());
    let arrival = |record: Option<&Record>| record.map(|record| record.arrived_at.clone());
    json!({
        "requestContext": {
            "requestId": uuid::Uuid::new_v4().to_string(),
            "functionArn": shared.function_arn,
            "condition": condition,
            "approximateInvokeCount": invocations,
        },
        "responseContext": {
            "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled",
        },
        "version": "1.0",
        "timestamp": now(),
        "DDBStreamBatchInfo": {
            "shardId": "shardId-00000000000000000000-00000000",
            "startSequenceNumber": sequence(first),
            "endSequenceNumber": sequence(last),
            "approximateArrivalOfFirstRecord": arrival(first),
            "approximateArrivalOfLastRecord": arrival(last),
            "batchSize": records.len(),
            "streamArn": shared.rules.stream_arn,
        },
    })
}
