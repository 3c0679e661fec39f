//! Event sources: who may deploy by an event on the bus.

use canyon_domain::principal::Role;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// "Deploy requests that arrive as events from this account act as a deployer of this organization."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventSource {
    /// The organization.
    pub org_id: String,
    /// Its id.
    pub id: String,
    /// This life of it. Audit records and deployments name it as who asked.
    pub uuid: Uuid,
    /// The AWS account that sends the events.
    #[schema(example = "123456789012")]
    pub account: String,
    /// Only events with this `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only events that this rule of the bus passes on: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only for this project, or the projects of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What they may do; always `deployer`.
    #[schema(value_type = String)]
    pub role: Role,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to make an event source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventSourceCreateBody {
    /// Its id.
    #[schema(example = "acme-ci", max_length = 63)]
    pub id: String,
    /// The AWS account that sends the events.
    #[schema(example = "123456789012")]
    pub account: String,
    /// Only events with this `source`; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "com.acme.ci", max_length = 256)]
    pub source: Option<String>,
    /// Only events that this rule of the bus passes on: its name or ARN; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only for this project, or the projects of this group; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What they may do: only `deployer` is served, and is meant without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "deployer")]
    pub role: Option<String>,
}

/// A request to change an event source. What is not given stays; `null` or an empty text makes
/// `source`, `rule` or `project` "any" again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventSourceUpdateBody {
    /// The AWS account that sends the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Only events with this `source`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub source: Option<String>,
    /// Only events that this rule of the bus passes on: its name or ARN.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only for this project, or the projects of this group.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What they may do: only `deployer` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// `null` is given too: it empties the field, as an empty text does.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
}
