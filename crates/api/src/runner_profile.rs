//! Profiles of runners.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Settings under a name, which runners of agents take by their `profile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunnerProfile {
    /// The organization.
    pub org_id: String,
    /// Its name.
    #[schema(example = "production-eu")]
    pub id: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The types of runners that it fits.
    #[schema(example = json!(["kubernetes-agent"]))]
    pub runner_types: Vec<String>,
    /// Which agents launch, instead of those that the runner names: `ids` or `labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub agents: Option<Value>,
    /// Merged over the runner's `job` (RFC 7396).
    #[schema(value_type = Object)]
    pub job: Map<String, Value>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to make a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerProfileCreateBody {
    /// Its name.
    #[schema(max_length = 255)]
    pub id: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// Which agents launch, instead of those that the runner names: `ids` or `labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub agents: Option<Value>,
    /// Merged over the runner's `job` (RFC 7396): `null` takes a setting away.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub job: Map<String, Value>,
}

/// A request to change a profile. What is not given stays; what is given replaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerProfileUpdateBody {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// Which agents launch; `{}` for those that the runner names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub agents: Option<Value>,
    /// Merged over the runner's `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub job: Option<Map<String, Value>>,
}
