//! Environments.

use crate::approval::ApprovalRule;
use crate::drift::{Drift, IgnoreRule};
use crate::resource::Resource;
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
    /// Distinguishes it from earlier environments of the same id; part of the name of its state.
    pub uuid: Uuid,
    /// The project.
    pub project_id: String,
    /// Uuid of the project.
    pub project_uuid: Uuid,
    /// Its type.
    pub env_type_id: String,
    /// Name for people.
    pub display_name: String,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// `active`, `deleting` or `delete_failed`.
    pub status: String,
    /// The status as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The linked runner.
    pub runner_id: String,
    /// The runners that take its deployments when the one before cannot, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_runner_ids: Vec<String>,
    /// Its OpenTofu state; absent before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EnvironmentState>,
    /// What container jobs have created in it, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// Limit of deletions in a run; absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// Its own rule for approvals: of each setting, the stricter value of it and of `type_approval` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRule>,
    /// The rule of its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_approval: Option<ApprovalRule>,
    /// SHA-256 of the policy of its type, by which its plans are judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_policy: Option<String>,
    /// Whether it differs from what was deployed last; absent before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// The differences that count for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift_ignore: Vec<IgnoreRule>,
    /// What was deployed to it, and what runs; only in the answer to `getEnvironment`. Absent before the first deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments: Option<EnvironmentDeployments>,
    /// Why no agent could take a deployment: none of the runner and its fallbacks has ever connected or asked to be adopted.
    /// Only in the answer to `getEnvironment` with `no_agent_reason=true`. Absent if one of these runners is disabled, keeps
    /// states on the platform of its agents, or has its jobs launched by Canyon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_agent_reason: Option<String>,
}

/// The deployments of an environment, at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentDeployments {
    /// The newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<DeploymentBrief>,
    /// The last one that succeeded, without plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<DeploymentBrief>,
    /// The one that has the environment's turn: no other runs, and its job locks the state while it plans and applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Uuid>,
    /// Number of those that wait for their turn.
    pub waiting: u32,
    /// Id of the lock that blocks the newest one: another run, or a program other than Canyon, holds the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by_lock: Option<String>,
}

/// A deployment in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentBrief {
    /// Its id.
    pub id: Uuid,
    /// `deploy`, `destroy` or `rollback`.
    pub mode: String,
    /// Whether it stops after the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_only: bool,
    /// Its status.
    pub status: String,
    /// Time of acceptance.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Principal that requested it.
    pub created_by: Uuid,
    /// The name of that principal, if it has one: of a person, a service account, or the description of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by_name: Option<String>,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
}

/// What Canyon has recorded about an environment's OpenTofu state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentState {
    /// Location of the state.
    #[schema(example = "s3://states/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate")]
    #[serde(rename = "place")]
    pub location: String,
    /// The type of the storage: `kubernetes`, `s3`, `gcs`, `azurerm` or `local`.
    #[schema(example = "s3")]
    pub storage_type: String,
    /// SHA-256 of the storage's definition, in hexadecimal.
    pub storage_digest: String,
    /// The state's lineage, which never changes; absent before the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// Its serial, which grows with each write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// Managed resource instances in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<u32>,
    /// Whether more resources may exist, because an apply did not report everything that it left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// The deployment that reported `lineage`, `serial` and `resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_by: Option<Uuid>,
    /// Time of that deployment's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reported_at: Option<Timestamp>,
    /// Location to which the next run moves the state, if an administrator has allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<String>,
}

/// Ends each run whose plan deletes or replaces more resources than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletionProtection {
    /// Most resources that a run may delete or replace; 0 for none. Those of the state that the
    /// provider does not find count too.
    #[schema(value_type = i64, minimum = 0, maximum = 4_294_967_295i64, example = 0)]
    pub max_deletions: u32,
}

/// A request to create an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentCreateBody {
    /// Its id.
    #[schema(example = "sample-env", pattern = "^[a-z](?:-?[a-z0-9]+)+$", max_length = 63)]
    pub id: String,
    /// Its type, which must exist.
    #[schema(example = "development")]
    pub env_type_id: String,
    /// Name for people; default: the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// Limit of deletions in a run; default: that of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
}

/// A request to change an environment. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentUpdateBody {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// Limit of deletions in a run; `null` for no limit.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<DeletionProtection>)]
    pub deletion_protection: Change<DeletionProtection>,
    /// Its own rule for approvals, not less strict than that of its type; `null` for none of its own.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<ApprovalRule>)]
    pub approval: Change<ApprovalRule>,
    /// The differences that count for nothing, in place of those that were given before; at most 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_ignore: Option<Vec<IgnoreRule>>,
}

/// The runner that the current rules choose for an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefreshRunnerActionResult {
    /// The runner that is linked, or with `dry_run` would be.
    pub runner_id: String,
    /// Its fallbacks, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_runner_ids: Vec<String>,
    /// Whether the links have changed.
    pub updated: bool,
    /// Location to which the next run moves the environment's state, or with `migrate` would.
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
