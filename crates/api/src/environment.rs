//! Environments.

use canyon_domain::change::Change;
use canyon_domain::inventory;
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
    /// Its OpenTofu state; absent before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EnvironmentState>,
    /// How much a run may delete; absent when there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
}

/// What is known of an environment's OpenTofu state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentState {
    /// Where it lies.
    #[schema(example = "s3://states/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate")]
    pub place: String,
    /// The type of the storage: `kubernetes`, `s3`, `gcs`, `azurerm` or `local`.
    #[schema(example = "s3")]
    pub storage_type: String,
    /// SHA-256 of the storage's definition, in hexadecimal.
    pub storage_digest: String,
    /// The state's lineage, which OpenTofu never changes; absent before the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// Its serial, which grows with each write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// Managed resource instances in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<u32>,
    /// Whether there may be more resources: an apply did not say all that it left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// The deployment that reported `lineage`, `serial` and `resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_by: Option<Uuid>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reported_at: Option<Timestamp>,
    /// Where an administrator has allowed the next run to move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<String>,
}

/// Ends each run whose plan deletes or replaces more resources than this allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletionProtection {
    /// How many resources a run may delete or replace; 0 for none.
    #[schema(value_type = i64, minimum = 0, maximum = 4_294_967_295i64, example = 0)]
    pub max_deletions: u32,
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
    /// How much a run may delete; that of the type if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
}

/// A request to change an environment. What is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentUpdateBody {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// How much a run may delete; `null` for no limit.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<DeletionProtection>)]
    pub deletion_protection: Change<DeletionProtection>,
}

/// Which runner the rules choose for an environment now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefreshRunnerActionResult {
    /// The runner that was, or with `dry_run` would be, linked.
    pub runner_id: String,
    /// Whether the link was changed.
    pub updated: bool,
    /// The place that the next run moves the environment's state to, or with `migrate` would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_state_to: Option<String>,
}

impl From<DeletionProtection> for inventory::DeletionProtection {
    fn from(given: DeletionProtection) -> Self {
        Self { max_deletions: given.max_deletions }
    }
}

impl From<inventory::DeletionProtection> for DeletionProtection {
    fn from(stored: inventory::DeletionProtection) -> Self {
        Self { max_deletions: stored.max_deletions }
    }
}
