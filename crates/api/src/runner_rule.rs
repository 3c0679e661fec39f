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
    /// Only rules for this runner.
    #[serde(default, rename = "byRunnerId", skip_serializing_if = "Option::is_none")]
    pub by_runner_id: Option<String>,
}
