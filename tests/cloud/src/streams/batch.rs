//! A batch: the records of one invocation.

use super::record::Record;
use serde_json::{Value, json};

/// "6 MB each for request and response (synchronous)". (Lambda quotas.)
pub(super) const PAYLOAD: usize = 6 * 1_024 * 1_024;

/// `{"Records":[]}`.
pub(super) const FRAME: usize = 14;

/// Some records, and how often they have failed.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    pub(super) failures: u32,
}

impl Batch {
    /// The event for the function.
    pub(super) fn payload(&self) -> Vec<u8> {
        let records: Vec<&Value> = self.records.iter().map(|record| &record.event).collect();
        json!({"Records": records}).to_string().into_bytes()
    }

    /// Its halves, in order. Bisecting does not count as an attempt.
    pub(super) fn halves(mut self) -> (Self, Self) {
        let back = self.records.split_off(self.records.len() / 2);
        let failures = self.failures;
        (self, Self { records: back, failures })
    }
}
