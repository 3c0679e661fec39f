//! The record of actions: who asked, for what, and the outcome.

use super::needs::Need;
use crate::chance::lock;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The role allows it, and the call was forwarded.
    Allowed,
    /// The role allows it, and the call got this fault.
    Faulted(&'static str),
    /// The role does not allow it.
    Denied,
}

/// One action of one call.
#[derive(Clone, Debug)]
pub struct Record {
    /// The function.
    pub function: String,
    /// The operation that it called, such as `dynamodb:TransactWriteItems`.
    pub operation: String,
    /// The action that this needs, such as `dynamodb:PutItem`.
    pub action: String,
    /// The ARN of the resource.
    pub resource: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The time of the call.
    pub at: Timestamp,
}

#[derive(Default)]
pub(super) struct Ledger(Mutex<Vec<Record>>);

impl Ledger {
    pub(super) fn write(&self, function: &str, operation: &str, needs: &[Need], outcome: &Outcome) {
        let at = Timestamp::now();
        lock(&self.0).extend(needs.iter().map(|need| Record {
            function: function.to_owned(),
            operation: operation.to_owned(),
            action: need.action.clone(),
            resource: need.resource.clone(),
            outcome: outcome.clone(),
            at,
        }));
    }

    pub(super) fn records(&self) -> Vec<Record> {
        lock(&self.0).clone()
    }

    pub(super) fn used_actions(&self, function: &str) -> BTreeSet<String> {
        let records = lock(&self.0);
        let used = records
            .iter()
            .filter(|record| record.function == function && record.outcome != Outcome::Denied);
        used.map(|record| record.action.clone()).collect()
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}
