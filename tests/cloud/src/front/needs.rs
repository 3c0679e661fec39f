//! The actions that a call needs from the caller's role. (Service Authorization Reference: actions and
//! resource types of each service.)

use super::call::Call;
use super::{Account, cloudformation, dynamodb, kms, other, put_events, s3};
use std::collections::BTreeMap;

/// One action on one resource, with the condition keys of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The action, such as `dynamodb:PutItem`.
    pub(crate) action: String,
    /// An ARN, or `*` for actions without a resource.
    pub(crate) resource: String,
    /// Condition keys, in lower case.
    pub(crate) context: BTreeMap<String, Vec<String>>,
}

impl Need {
    pub(crate) fn new(action: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { action: action.into(), resource: resource.into(), context: BTreeMap::new() }
    }

    pub(crate) fn with(mut self, key: &str, values: Vec<String>) -> Self {
        self.context.insert(key.to_lowercase(), values);
        self
    }
}

/// All actions that this call needs; none if every principal may make it.
pub(super) fn of(call: &Call, account: &Account) -> Vec<Need> {
    let needs = match call.scope.service.as_str() {
        "cloudformation" => cloudformation::needs(call, account),
        "dynamodb" => dynamodb::needs(call, account),
        "s3" => s3::needs(call),
        "kms" => kms::needs(call, account),
        "events" => put_events::needs(call, account),
        _ => other::needs(call),
    };
    let mut once: Vec<Need> = Vec::new();
    for need in needs {
        let need = need.with("aws:RequestedRegion", vec![call.scope.region.clone()]);
        if !once.contains(&need) {
            once.push(need);
        }
    }
    once
}
