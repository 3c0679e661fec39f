//! Runners.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Runner {
    /// The organization.
    pub org_id: String,
    /// Its id, unique in the organization.
    #[schema(example = "my-gke-runner")]
    pub id: String,
    /// This life of the runner, which clouds trust. A later runner of the same name has another one.
    pub uuid: Uuid,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether nothing is launched by it, because somebody said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Where and how jobs run; `type` says which properties it has. Secrets are never shown.
    #[schema(value_type = Object)]
    pub runner_configuration: Map<String, Value>,
    /// Where state lives; `type` says which properties it has.
    #[schema(value_type = Object)]
    pub state_storage_configuration: Map<String, Value>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// What cannot work in its configurations, though they may be stored: no job starts until it is changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FieldWarning>,
}

/// What cannot work in a definition that is stored all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldWarning {
    /// Where, from the root of the body.
    #[schema(example = "runner_configuration.cluster.cluster_data.server")]
    pub path: String,
    /// What is wrong there, without the value; reads on after the path.
    pub reason: String,
}

/// A runner as it stands in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerSummary {
    /// The organization.
    pub org_id: String,
    /// Its id, unique in the organization.
    #[schema(example = "my-gke-runner")]
    pub id: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether nothing is launched by it, because somebody said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Where and how jobs run.
    pub runner_configuration: ConfigurationSummary,
    /// Where state lives.
    pub state_storage_configuration: ConfigurationSummary,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// Of a configuration, its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationSummary {
    /// Its type.
    #[serde(rename = "type")]
    #[schema(example = "kubernetes-gke")]
    pub kind: String,
}

/// Filter of the list of runners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunnerQuery {
    /// Only runners of this type.
    #[serde(default, rename = "byRunnerType", skip_serializing_if = "Option::is_none")]
    pub by_runner_type: Option<String>,
}

/// A request to make a runner. The configurations are checked property by property; each fault is
/// named with its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerCreateBody {
    /// Its id.
    #[schema(pattern = "^[a-z][a-z0-9_-]+$", max_length = 63)]
    pub id: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where and how jobs run.
    #[schema(value_type = Object)]
    pub runner_configuration: Value,
    /// Where state lives.
    #[schema(value_type = Object)]
    pub state_storage_configuration: Value,
}

/// A request to change a runner. What is not given stays; a part of `runner_configuration` that is
/// given replaces the stored one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerUpdateBody {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether nothing is launched by it. What runs goes on; what would be launched waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Where and how jobs run; `type` must be the stored one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub runner_configuration: Option<Value>,
    /// Where state lives. While linked environments have resources in their state, another place is
    /// taken only with `migrate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub state_storage_configuration: Option<Value>,
    /// Have the next run of each linked environment move its state to the new storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub migrate: bool,
}
