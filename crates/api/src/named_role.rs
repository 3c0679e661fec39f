//! Named roles of a runner that an administrator enables for some hours.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A request to enable a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleEnableBody {
    /// Why, in one line.
    #[schema(max_length = 300)]
    pub reason: String,
    /// For how long, at most 8 hours. Default: one hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 60, maximum = 28800)]
    pub expires_in_seconds: Option<u32>,
}

/// A role that is enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnabledRole {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
    /// Principal that enabled it.
    pub enabled_by: Uuid,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub enabled_at: Timestamp,
    /// From then on it is disabled again.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
