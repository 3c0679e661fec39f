//! The limit of what a run may delete.

use serde::{Deserialize, Serialize};

/// Deletion protection: ends each run whose plan deletes or replaces more resources than this allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionProtection {
    /// Maximum number of resources that a run may delete or replace.
    pub max_deletions: u32,
}
