//! Runner profiles.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Named settings, which runners of agents use with their `profile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunnerProfile {
    /// The organization.
    pub org_id: String,
    /// Its name.
    #[schema(example = "production-eu")]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The types of runners that it is valid for.
    #[schema(example = json!(["kubernetes-agent"]))]
    pub runner_types: Vec<String>,
    /// The agents that launch, instead of those of the runner: `ids` or `labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub agents: Option<Value>,
    /// Merged over the runner's `job` (RFC 7396).
    #[schema(value_type = Object)]
    pub job: Map<String, Value>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to create a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerProfileCreateBody {
    /// Its name.
    #[schema(max_length = 255)]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// The agents that launch, instead of those of the runner: `ids` or `labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub agents: Option<Value>,
    /// Merged over the runner's `job` (RFC 7396): `null` removes a setting.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub job: Map<String, Value>,
}

/// A request to change a profile. An absent field keeps its value; a given one replaces the stored
/// one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerProfileUpdateBody {
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// The agents that launch; `{}` for those of the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub agents: Option<Value>,
    /// Merged over the runner's `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub job: Option<Map<String, Value>>,
}
