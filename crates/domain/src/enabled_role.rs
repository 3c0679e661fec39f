//! A disabled role that an administrator has enabled for some hours ("break glass").

use crate::ids::PrincipalId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest time for which a role is enabled, in seconds: a working day.
pub const MAX_ENABLED_SECONDS: u32 = 8 * 3600;

/// Who enabled a role, why, and until when. Nothing ends it but the time: each use compares that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnabledRole {
    /// Why.
    pub reason: String,
    /// The administrator.
    pub by: PrincipalId,
    /// When.
    pub at: Timestamp,
    /// From then on it is disabled again.
    pub until: Timestamp,
}

impl EnabledRole {
    /// Whether a job that begins at `at` may have the role.
    pub fn holds(&self, at: Timestamp) -> bool {
        at < self.until
    }
}
