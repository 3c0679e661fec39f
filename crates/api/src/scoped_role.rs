//! Roles that hold in a part of an organization.

use canyon_domain::principal::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A role where everything that is named agrees: in a project or group, in environments of a type, or in one
/// environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopedRole {
    /// What it may do there: `viewer`, `deployer` or `admin`.
    #[schema(value_type = String, example = "deployer")]
    pub role: Role,
    /// In this project, or in the projects of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "payments")]
    pub project_id: Option<String>,
    /// In environments of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "development")]
    pub env_type_id: Option<String>,
    /// In this environment of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
}
