//! Who did what, when, to which thing.

use crate::deployment::Deployment;
use crate::ids::PrincipalId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One accepted change. It is written in the transaction of the change itself, so that there is
/// neither a change without a record nor a record without a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Version 7: sorts by time.
    pub id: Uuid,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: PrincipalId,
    /// What: `<kind>.<verb>`, such as `runner.create`.
    pub action: String,
    /// To which thing: its kind and path, such as `projects/shop/envs/dev`.
    pub subject: String,
    /// By what right: the role of the caller, or `attempt` for a runner, or `canyon`.
    pub by_right: String,
    /// What else is worth keeping, such as the resources that were left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl AuditRecord {
    /// The record of a deployment's end that nobody asked for: its runner said so (`by_right` is
    /// `attempt`), or Canyon found it (`canyon`).
    pub fn of_end(id: Uuid, at: Timestamp, by_right: &str, deployment: &Deployment) -> Self {
        Self {
            id,
            at,
            by: PrincipalId(Uuid::nil()),
            action: format!("deployment.{}", deployment.status),
            subject: deployment.path(),
            by_right: by_right.to_owned(),
            details: Vec::new(),
        }
    }
}
