//! Organizations.

use canyon_domain::inventory::AgentRequests;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// An organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Organization {
    /// Its id, as in paths.
    #[schema(example = "my-org123")]
    pub id: String,
    /// Distinguishes it from earlier organizations of the same id.
    pub uuid: Uuid,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Principal that created it.
    pub created_by: Uuid,
    /// Always `open-source`.
    pub plan: String,
    /// Whether agents with neither a token nor a runner's key may register (`allowed`), or Canyon
    /// stores no record of them (`refused`). The answer to such an agent is the same.
    #[serde(default)]
    #[schema(value_type = String, example = "allowed")]
    pub agent_requests: AgentRequests,
}

/// A change to an organization. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrganizationUpdateBody {
    /// `allowed` or `refused`. With `refused`, pending agents are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub agent_requests: Option<AgentRequests>,
}

/// A new organization, with the token of its first admin.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewOrganization {
    /// The organization.
    #[serde(flatten)]
    pub organization: Organization,
    /// A token of its first admin. Shown only once.
    pub admin_token: String,
}
