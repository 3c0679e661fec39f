//! Environment types.

use crate::environment::DeletionProtection;
use canyon_domain::change::Change;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A kind of environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentType {
    /// Its id, unique in the organization.
    #[schema(example = "development")]
    pub id: String,
    /// This life of it.
    pub uuid: Uuid,
    /// What people call it.
    pub display_name: String,
    /// What a new environment of this type begins with; absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A request to make an environment type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentTypeCreateBody {
    /// Its id.
    #[schema(example = "development", pattern = "^[a-z](?:-?[a-z0-9]+)+$", max_length = 63)]
    pub id: String,
    /// What people call it; the id if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// What a new environment of this type begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
}

/// A request to change an environment type. What is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentTypeUpdateBody {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// What a new environment of this type begins with; `null` for no limit. Those that are there stay
    /// as they are.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<DeletionProtection>)]
    pub deletion_protection: Change<DeletionProtection>,
}
