//! A lock on a state that blocks an attempt.

use crate::ids::DeploymentId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An attempt that may own a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockOwner {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt's number.
    pub attempt: u32,
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of deployment {}", self.attempt, self.deployment)
    }
}

/// A lock that blocks an attempt, and the decision that the attempt received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingLock {
    /// The lock's id.
    pub id: String,
    /// The attempt whose job must be proved dead first, if the decision is to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<LockOwner>,
    /// What the platform last reported about that job.
    #[serde(rename = "said", default, skip_serializing_if = "Option::is_none")]
    pub platform_report: Option<String>,
    /// The attempt received the decision to break the lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broken: bool,
}
