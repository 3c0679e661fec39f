//! Roles for a part of an organization.

use canyon_domain::principal::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A role that applies where all given conditions hold: in a project or group, in environments of a
/// type, or in one environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopedRole {
    /// The role: `viewer`, `deployer` or `admin`.
    #[schema(value_type = String, example = "deployer")]
    pub role: Role,
    /// Only in this project or the projects of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "payments")]
    pub project_id: Option<String>,
    /// Only in environments of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "development")]
    pub env_type_id: Option<String>,
    /// Only in this environment of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
}
