//! The mark of a deployment whose log was removed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The log and the events of a deployment are removed, or are being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsRemoval {
    /// When the removal began.
    pub at: Timestamp,
    /// The retention that removed them, in days.
    pub days: u32,
    /// Some of their objects may still exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}
