//! A batch: what one invocation carries.

use super::record::Record;
use serde_json::{Value, json};

/// "6 MB each for request and response (synchronous)". (Lambda quotas.)
pub(super) const PAYLOAD: usize = 6 * 1_024 * 1_024;

/// `{"Records":[]}`.
pub(super) const FRAME: usize = 14;

/// Some records, and how often they failed already.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    pub(super) failures: u32,
}

impl Batch {
    /// The event that the function gets.
    pub(super) fn payload(&self) -> Vec<u8> {
        let records: Vec<&Value> = self.records.iter().map(|record| &record.event).collect();
        json!({"Records": records}).to_string().into_bytes()
    }

    /// Its halves, in order. Halving does not count as a try.
    pub(super) fn halves(mut self) -> (Self, Self) {
        let back = self.records.split_off(self.records.len() / 2);
        let failures = self.failures;
        (self, Self { records: back, failures })
    }
}
