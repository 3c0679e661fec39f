//! The Kubernetes Job that a poller creates, and how it is handed out.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Placeholder in a [`Manifest`] for the claim code, which Canyon stores nowhere.
pub const CLAIM_CODE: &str = "(claim code)";

/// The Kubernetes Job of an attempt, for pollers that create the Job that they receive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The Job's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The Job, with [`CLAIM_CODE`] in it.
    pub job: Value,
}

/// A job that was handed out to a poller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolledJob {
    /// The Job's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// When Canyon last sent a poller a message about the job; once a cancel was sent, when Canyon last sent
    /// the cancel.
    #[serde(rename = "said_at")]
    pub last_message_at: Timestamp,
    /// Whether the next poll asks the poller to check the job.
    #[serde(rename = "look", default, skip_serializing_if = "std::ops::Not::not")]
    pub check_pending: bool,
}

impl Manifest {
    /// The Job, with `code` in place of [`CLAIM_CODE`].
    pub fn with_claim_code(mut self, code: &str) -> Value {
        fill(&mut self.job, code);
        self.job
    }
}

fn fill(value: &mut Value, code: &str) {
    match value {
        Value::String(text) if text == CLAIM_CODE => code.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, code)),
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, code)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
