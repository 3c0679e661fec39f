//! The faults that a test can ask for, and which call gets one.

use super::call::Call;
use crate::chance::{Chance, lock};
use crate::wildcard;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// What can go wrong with a call that the role's policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused as too much, not executed.
    Throttle,
    /// `DynamoDB` writes and transactions: another transaction has the item; not executed.
    Conflict,
    /// `PutEvents` and the batches of `DynamoDB`: answered with 200, and nothing in it was done.
    Partial,
    /// Answered with a server error, not executed.
    ErrorBefore,
    /// Executed, and answered with a server error.
    ErrorAfter,
    /// The connection ends without an answer, not executed.
    CutBefore,
    /// Executed, and the connection ends without an answer.
    CutAfter,
    /// It takes this much longer.
    Latency(Duration),
}

impl Fault {
    /// How it is counted and recorded.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttle => "throttle",
            Self::Conflict => "conflict",
            Self::Partial => "partial",
            Self::ErrorBefore => "error before commit",
            Self::ErrorAfter => "error after commit",
            Self::CutBefore => "cut before commit",
            Self::CutAfter => "cut after commit",
            Self::Latency(_) => "latency",
        }
    }

    /// Whether a service can answer this call so.
    fn fits(self, call: &Call) -> bool {
        let operation = call.operation.as_str();
        let dynamodb = call.scope.service == "dynamodb";
        match self {
            Self::Conflict => {
                let names = [
                    "TransactWriteItems",
                    "TransactGetItems",
                    "PutItem",
                    "UpdateItem",
                    "DeleteItem",
                ];
                dynamodb && names.contains(&operation)
            }
            Self::Partial => {
                operation == "PutEvents"
                    || (dynamodb && ["BatchGetItem", "BatchWriteItem"].contains(&operation))
            }
            _ => true,
        }
    }
}

/// How often a fault is put into which calls.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The function, `*` and `?` allowed.
    pub function: String,
    /// The operation, such as `dynamodb:TransactWriteItems`, `*` and `?` allowed.
    pub operation: String,
    /// What goes wrong.
    pub fault: Fault,
    /// How often: 0.2 is each fifth call.
    pub rate: f64,
    /// At most so many times.
    pub times: Option<u64>,
}

impl FaultRule {
    /// For every function, without end.
    pub fn new(operation: &str, fault: Fault, rate: f64) -> Self {
        let operation = operation.to_owned();
        Self { function: "*".to_owned(), operation, fault, rate, times: None }
    }

    /// For this function only.
    #[must_use]
    pub fn of(mut self, function: &str) -> Self {
        function.clone_into(&mut self.function);
        self
    }

    /// At most so many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

/// The rules in force, and how often each fault was put in.
#[derive(Default)]
pub(super) struct Faults {
    rules: Mutex<Vec<FaultRule>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

/// What happens to one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) latency: Duration,
    pub(super) fault: Option<Fault>,
}

impl Faults {
    pub(super) fn set(&self, rules: Vec<FaultRule>) {
        *lock(&self.rules) = rules;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.counts).clone()
    }

    pub(super) fn forget(&self) {
        lock(&self.counts).clear();
    }

    /// At most one fault besides latency: the first rule whose turn it is.
    pub(super) fn draw(&self, function: &str, call: &Call, chance: &Chance) -> Draw {
        let name = call.full_name();
        let mut draw = Draw::default();
        for rule in &mut *lock(&self.rules) {
            let latency = matches!(rule.fault, Fault::Latency(_));
            let due = wildcard::matches(&rule.function, function)
                && wildcard::matches(&rule.operation, &name)
                && rule.fault.fits(call)
                && (latency || draw.fault.is_none())
                && rule.times != Some(0)
                && chance.happens(rule.rate);
            if !due {
                continue;
            }
            rule.times = rule.times.map(|left| left - 1);
            *lock(&self.counts).entry(rule.fault.name()).or_default() += 1;
            match rule.fault {
                Fault::Latency(more) => draw.latency += more,
                fault => draw.fault = Some(fault),
            }
        }
        draw
    }
}
