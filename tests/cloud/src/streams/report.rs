//! What a function's answer reports about its batch.

use super::record::Record;
use serde_json::Value;

/// The result of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// All records were accepted.
    Taken,
    /// This record failed, and all from it on are retried.
    From(u128),
    /// No record was accepted.
    Failed,
    /// The function was not started.
    NotStarted,
}

/// Parses an answer. Without `ReportBatchItemFailures` any answer means success.
pub(super) fn read(answer: &[u8], partial: bool, records: &[Record]) -> Report {
    if !partial || answer.is_empty() {
        return Report::Taken;
    }
    let Ok(answer) = serde_json::from_slice::<Value>(answer) else { return Report::Failed };
    let failures = match answer {
        // "A null EventResponse", "an empty EventResponse"
        Value::Null => return Report::Taken,
        Value::Object(members) if members.is_empty() => return Report::Taken,
        Value::Object(mut members) => members.remove("batchItemFailures"),
        _ => return Report::Failed,
    };
    match failures {
        // "An empty batchItemFailure list", "a null batchItemFailure list"
        Some(Value::Null) => Report::Taken,
        Some(Value::Array(failures)) if failures.is_empty() => Report::Taken,
        Some(Value::Array(failures)) => lowest(&failures, records),
        // Lambda does not document what another member name means. Here it is a failure, so that it is noticed.
        _ => Report::Failed,
    }
}

/// "If the batchItemFailures array contains multiple items, Lambda uses the record with the lowest sequence
/// number as the checkpoint." An empty, null or misnamed identifier, or one that is not in the batch, fails it all.
fn lowest(failures: &[Value], records: &[Record]) -> Report {
    let mut lowest = None;
    for failure in failures {
        let named = failure["itemIdentifier"].as_str().unwrap_or_default();
        let known = records.iter().find(|record| record.sequence.to_string() == named);
        let Some(known) = known else { return Report::Failed };
        lowest = Some(lowest.map_or(known.sequence, |before: u128| before.min(known.sequence)));
    }
    lowest.map_or(Report::Failed, Report::From)
}
