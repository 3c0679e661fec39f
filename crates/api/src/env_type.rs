//! Environment types.

use crate::approval::ApprovalRule;
use crate::environment::DeletionProtection;
use crate::policy::Policy;
use canyon_domain::change::Change;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A type of environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentType {
    /// Its id, unique in the organization.
    #[schema(example = "development")]
    pub id: String,
    /// Distinguishes it from earlier types of the same id.
    pub uuid: Uuid,
    /// Name for people.
    pub display_name: String,
    /// Deletion protection of new environments of this type; absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// Which plans need approval in the environments of this type; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRule>,
    /// What each plan in its environments is judged by. Lists leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// SHA-256 of that policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A request to create an environment type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentTypeCreateBody {
    /// Its id.
    #[schema(example = "development", pattern = "^[a-z](?:-?[a-z0-9]+)+$", max_length = 63)]
    pub id: String,
    /// Name for people; default: the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// Deletion protection of new environments of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// Which plans need approval in the environments of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRule>,
    /// What each plan in its environments is judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// A request to change an environment type. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentTypeUpdateBody {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// Deletion protection of new environments of this type; `null` for no limit. Existing
    /// environments do not change.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<DeletionProtection>)]
    pub deletion_protection: Change<DeletionProtection>,
    /// Which plans need approval in the environments of this type, also in those that exist; `null` for none.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<ApprovalRule>)]
    pub approval: Change<ApprovalRule>,
    /// What each plan in its environments is judged by, also in those that exist; `null` for nothing.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<Policy>)]
    pub policy: Change<Policy>,
}
