//! Event sources: which events on the bus may deploy.

use canyon_domain::principal::Role;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Allows deploy requests that arrive as events of an AWS account to act as a deployer of this
/// organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventSource {
    /// The organization.
    pub org_id: String,
    /// Its id.
    pub id: String,
    /// Distinguishes it from earlier event sources of the same id. Audit records and deployments
    /// contain it as their author.
    pub uuid: Uuid,
    /// The AWS account that sends the events.
    #[schema(example = "123456789012")]
    pub account: String,
    /// Only events with this `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only events that this rule of the bus forwards: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only for this project or the projects of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Role of its events; always `deployer`.
    #[schema(value_type = String)]
    pub role: Role,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to create an event source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventSourceCreateBody {
    /// Its id.
    #[schema(example = "acme-ci", max_length = 63)]
    pub id: String,
    /// The AWS account that sends the events.
    #[schema(example = "123456789012")]
    pub account: String,
    /// Only events with this `source`; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "com.acme.ci", max_length = 256)]
    pub source: Option<String>,
    /// Only events that this rule of the bus forwards: its name or ARN; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only for this project or the projects of this group; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Role of its events: only `deployer` is supported, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "deployer")]
    pub role: Option<String>,
}

/// A request to change an event source. An absent field keeps its value; `null` or an empty string
/// resets `source`, `rule` or `project` to "any".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventSourceUpdateBody {
    /// The AWS account that sends the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Only events with this `source`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub source: Option<String>,
    /// Only events that this rule of the bus forwards: its name or ARN.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only for this project or the projects of this group.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Role of its events: only `deployer` is supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// Parses `null` as a value too: it resets the field, like an empty string.
fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(Option::<String>::deserialize(deserializer)?.unwrap_or_default()))
}
