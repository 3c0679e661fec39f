//! The faults that a test can request, and which calls get them.

use super::call::Call;
use crate::chance::{Chance, lock};
use crate::wildcard;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A fault of a call that the role's policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused by a throttle, not executed.
    Throttle,
    /// `DynamoDB` writes and transactions: another transaction holds the item; not executed.
    Conflict,
    /// `PutEvents` and the batches of `DynamoDB`: answered with 200, and nothing was done.
    Partial,
    /// Answered with a server error, not executed.
    ErrorBefore,
    /// Executed, and answered with a server error.
    ErrorAfter,
    /// The connection ends without an answer, not executed.
    CutBefore,
    /// Executed, and the connection ends without an answer.
    CutAfter,
    /// The call takes this much longer.
    Latency(Duration),
}

impl Fault {
    /// The name in counts and records.
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

    /// Whether a service can answer this call with this fault.
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

/// Which calls get a fault, and how often.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The function; `*` and `?` are allowed.
    pub function: String,
    /// The operation, such as `dynamodb:TransactWriteItems`; `*` and `?` are allowed.
    pub operation: String,
    /// The fault.
    pub fault: Fault,
    /// The probability: 0.2 is every fifth call.
    pub rate: f64,
    /// The maximum number of times.
    pub times: Option<u64>,
}

impl FaultRule {
    /// A rule for every function, without a maximum.
    pub fn new(operation: &str, fault: Fault, rate: f64) -> Self {
        let operation = operation.to_owned();
        Self { function: "*".to_owned(), operation, fault, rate, times: None }
    }

    /// Restricts the rule to this function.
    #[must_use]
    pub fn of(mut self, function: &str) -> Self {
        function.clone_into(&mut self.function);
        self
    }

    /// Sets the maximum number of times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

/// The active rules, and how often each fault was made.
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

    /// Latency and at most one other fault: that of the first rule that applies.
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
