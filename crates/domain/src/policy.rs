//! Policies over plans: what an environment type demands of each plan in its environments, in Rego, and what became of it.
//!
//! The text is compiled and evaluated by the crate `canyon-policy`; this module has what needs no compiler.

use crate::field_error::FieldErrors;
use crate::module_source::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Maximum number of modules in a policy.
pub const MAX_MODULES: usize = 10;
/// Maximum size of all modules of a policy, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// Least and most seconds for which a policy may be evaluated.
pub const TIMEOUT: std::ops::RangeInclusive<u32> = 1..=60;
/// Seconds for which a policy may be evaluated, if the request says nothing.
pub const DEFAULT_TIMEOUT: u32 = 10;
/// Maximum length of a module's name.
const MAX_NAME: usize = 100;
/// Maximum number of messages of each kind that a run reports.
pub const MAX_MESSAGES: usize = 50;
/// Maximum number of messages of each kind in the log of a run.
pub const MAX_LOGGED: usize = 1_000;
/// Maximum length of a message, in characters.
pub const MAX_MESSAGE: usize = 500;
/// The messages that a deployment's record has itself have at most so many bytes: a record is written with each report, and
/// DynamoDB counts each KB of it.
const MAX_RECORDED: usize = 4 * 1024;

/// The policy of an environment type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The text of each module, by its name.
    pub modules: BTreeMap<String, String>,
    /// For how long it may be evaluated.
    pub timeout_seconds: u32,
}

impl Policy {
    /// Finds sizes, numbers and names that are not allowed, below `path`.
    pub fn check(&self, path: &str, faults: &mut FieldErrors) {
        if !TIMEOUT.contains(&self.timeout_seconds) {
            let reason = format!("is {} to {}", TIMEOUT.start(), TIMEOUT.end());
            faults.add(format!("{path}.timeout_seconds"), reason);
        }
        let modules = format!("{path}.modules");
        if !(1..=MAX_MODULES).contains(&self.modules.len()) {
            faults.add(&modules, format!("has 1 to {MAX_MODULES} modules"));
        }
        let bytes: usize = self.modules.values().map(String::len).sum();
        if bytes > MAX_BYTES {
            let reason = format!("has {bytes} bytes, and all modules together at most {MAX_BYTES}");
            faults.add(&modules, reason);
        }
        for name in self.modules.keys().filter(|name| !is_module_name(name)) {
            let reason = format!(
                "is no name of a module: that has the letters a to z, digits, `_`, `.` and `-`, ends with `.rego`, and has at \
                 most {MAX_NAME} characters"
            );
            faults.add(module_path(path, name), reason);
        }
    }

    /// SHA-256 of it: two policies with the same digest say the same.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        // With lengths, so that no text can be taken for the name of another module.
        hash.update(self.timeout_seconds.to_be_bytes());
        for part in self.modules.iter().flat_map(|(name, text)| [name, text]) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Digest::of_hash(hash.finalize().into())
    }
}

/// The path of a module in a request: `policy.modules["NAME.rego"]`.
pub fn module_path(path: &str, name: &str) -> String {
    let short: String = name.chars().take(MAX_NAME).collect();
    format!("{path}.modules[{short:?}]")
}

/// `^[a-z0-9_.-]+\.rego$`
fn is_module_name(name: &str) -> bool {
    let is_allowed =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    let stem = name.strip_suffix(".rego").unwrap_or_default();
    !stem.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_allowed)
}

/// The policy by which a job judges its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPolicy {
    /// SHA-256 of it.
    pub digest: Digest,
    /// It.
    #[serde(flatten)]
    pub policy: Policy,
}

impl From<Policy> for JobPolicy {
    fn from(policy: Policy) -> Self {
        Self { digest: policy.digest(), policy }
    }
}

/// What a policy says of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Why the plan must not be applied; the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// What the requester should know; the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many messages deny the plan, also those that are not listed.
    #[serde(default)]
    pub num_denied: u32,
    /// The same of the warnings.
    #[serde(default)]
    pub num_warnings: u32,
}

impl Findings {
    /// The same with at most [`MAX_MESSAGES`] messages of each kind, of at most [`MAX_MESSAGE`] characters.
    #[must_use]
    pub fn limited(mut self) -> Self {
        for (list, number) in
            [(&mut self.denied, &mut self.num_denied), (&mut self.warnings, &mut self.num_warnings)]
        {
            *number = (*number).max(u32::try_from(list.len()).unwrap_or(u32::MAX));
            list.truncate(MAX_MESSAGES);
            for message in list.iter_mut() {
                *message = crate::failure::shortened_to(message, MAX_MESSAGE);
            }
        }
        self
    }

    /// The first messages that a deployment's record has room for; those that deny come first.
    fn recorded(&self) -> Self {
        let mut room = MAX_RECORDED;
        let mut fitting = |list: &[String]| -> Vec<String> {
            let fits = |message: &&String| {
                let left = room.checked_sub(message.len());
                room = left.unwrap_or(0);
                left.is_some()
            };
            list.iter().take_while(fits).cloned().collect()
        };
        let (denied, warnings) = (fitting(&self.denied), fitting(&self.warnings));
        Self { denied, warnings, ..*self }
    }
}

/// What a deployment's record has of the judgement of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// SHA-256 of the policy.
    pub digest: Digest,
    /// The first messages, and how many there are.
    #[serde(flatten)]
    pub findings: Findings,
    /// The attempt whose object in the object store has all messages, if this record has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_by: Option<u32>,
}

impl Judgement {
    /// The record of what the attempt `number` has found.
    pub fn new(digest: Digest, findings: &Findings, number: u32) -> Self {
        let recorded = findings.recorded();
        let stored_by = (recorded != *findings).then_some(number);
        Self { digest, findings: recorded, stored_by }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
