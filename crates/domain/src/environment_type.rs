//! Environment types, and what an update changes of them.

use crate::approval::ApprovalRule;
use crate::change::Change;
use crate::deletion_protection::DeletionProtection;
use crate::display_name::DisplayName;
use crate::drift::IgnoreRule;
use crate::ids::EnvTypeId;
use crate::policy::Policy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A kind of environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentType {
    /// Its name.
    pub id: EnvTypeId,
    /// Its uuid, which is never reused.
    pub uuid: Uuid,
    /// Its name for users.
    pub display_name: DisplayName,
    /// The default protection of a new environment of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// Which plans need approval in each environment of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRule>,
    /// What each plan in its environments is judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<Policy>>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// What an update changes of an environment type, or of an environment.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Its name for users.
    pub display_name: Option<DisplayName>,
    /// Its deletion protection.
    pub deletion_protection: Change<DeletionProtection>,
    /// Its rule for approvals.
    pub approval: Change<ApprovalRule>,
    /// Of an environment type: its policy over plans.
    pub policy: Change<Box<Policy>>,
    /// Of an environment: what it ignores of its drift.
    pub drift_ignore: Option<Vec<IgnoreRule>>,
}
