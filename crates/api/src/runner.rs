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
    /// Uuid of the runner, which clouds trust. A later runner of the same id has another one.
    pub uuid: Uuid,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether an administrator has disabled it: nothing new is launched with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Where and how jobs run; `type` determines the properties. Secrets are never shown.
    #[schema(value_type = Object)]
    pub runner_configuration: Map<String, Value>,
    /// Where state is stored; `type` determines the properties.
    #[schema(value_type = Object)]
    pub state_storage_configuration: Map<String, Value>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Faults of its configurations that Canyon accepts but that prevent every job from starting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FieldWarning>,
}

/// A fault of a stored definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldWarning {
    /// Path of the faulty property, from the root of the body.
    #[schema(example = "runner_configuration.cluster.cluster_data.server")]
    pub path: String,
    /// The fault, without the value. The text continues a sentence after the path.
    pub reason: String,
}

/// A runner in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerSummary {
    /// The organization.
    pub org_id: String,
    /// Its id, unique in the organization.
    #[schema(example = "my-gke-runner")]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether an administrator has disabled it: nothing new is launched with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Where and how jobs run.
    pub runner_configuration: ConfigurationSummary,
    /// Where state is stored.
    pub state_storage_configuration: ConfigurationSummary,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The type of a configuration.
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

/// A request to create a runner. Every property of the configurations is checked; each fault is
/// named with its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerCreateBody {
    /// Its id.
    #[schema(pattern = "^[a-z][a-z0-9_-]+$", max_length = 63)]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where and how jobs run.
    #[schema(value_type = Object)]
    pub runner_configuration: Value,
    /// Where state is stored.
    #[schema(value_type = Object)]
    pub state_storage_configuration: Value,
}

/// A request to change a runner. An absent field keeps its value; a part of `runner_configuration`
/// that is given replaces the stored part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerUpdateBody {
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is disabled. Running jobs continue; new ones wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Where and how jobs run; `type` must be the stored one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub runner_configuration: Option<Value>,
    /// Where state is stored. While linked environments have resources in their state, another
    /// storage is accepted only with `migrate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub state_storage_configuration: Option<Value>,
    /// Let the next run of each linked environment move its state to the new storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub migrate: bool,
}
