//! Environments.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// An environment of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Environment {
    /// Its id, unique in the project.
    #[schema(example = "sample-env")]
    pub id: String,
    /// This life of it; names its state.
    pub uuid: Uuid,
    /// The project.
    pub project_id: String,
    /// Which life of the project.
    pub project_uuid: Uuid,
    /// Its type.
    pub env_type_id: String,
    /// What people call it.
    pub display_name: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// `active`, `deleting` or `delete_failed`.
    pub status: String,
    /// The status in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The runner that it is linked to.
    pub runner_id: String,
}

/// A request to make an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentCreateBody {
    /// Its id.
    #[schema(example = "sample-env", pattern = "^[a-z](?:-?[a-z0-9]+)+$", max_length = 63)]
    pub id: String,
    /// Its type, which must exist.
    #[schema(example = "development")]
    pub env_type_id: String,
    /// What people call it; the id if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
}

/// A request to change an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentUpdateBody {
    /// What people call it.
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: String,
}

/// Which runner the rules choose for an environment now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefreshRunnerActionResult {
    /// The runner that was, or with `dry_run` would be, linked.
    pub runner_id: String,
    /// Whether the link was changed.
    pub updated: bool,
}
