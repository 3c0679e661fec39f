//! Runner rules.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Chooses a runner for environments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerRule {
    /// The organization.
    pub org_id: String,
    /// Its id.
    pub id: Uuid,
    /// The runner to use.
    pub runner_id: String,
    /// The runners that take a deployment when the one before cannot, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_runner_ids: Vec<String>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Only for this project or the projects of this group; empty for all.
    pub project_id: String,
    /// Only for environments of this type; empty for all.
    pub env_type_id: String,
}

/// A request to create a runner rule. A rule without project and type matches every environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerRuleCreateBody {
    /// The runner to use, which must exist.
    #[schema(example = "my-gke-runner")]
    pub runner_id: String,
    /// At most 4 runners that take a deployment when the one before cannot, in this order: its agents are away or busy, its
    /// concurrency limit is reached, or it is disabled. They must exist and keep states where the runner does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 4)]
    pub fallback_runner_ids: Vec<String>,
    /// Only for environments of this type, which must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_type_id: Option<String>,
    /// Only for this project or the projects of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

/// Filters of the list of runner rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunnerRuleQuery {
    /// Only rules that name this project.
    #[serde(default, rename = "byProjectId", skip_serializing_if = "Option::is_none")]
    pub by_project_id: Option<String>,
    /// Only rules that name this environment type.
    #[serde(default, rename = "byEnvTypeId", skip_serializing_if = "Option::is_none")]
    pub by_env_type_id: Option<String>,
    /// Only rules with this runner, also as a fallback.
    #[serde(default, rename = "byRunnerId", skip_serializing_if = "Option::is_none")]
    pub by_runner_id: Option<String>,
}
