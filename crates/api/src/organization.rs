//! Organizations.

use canyon_domain::inventory::AgentRequests;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// An organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Organization {
    /// Its id, as it stands in paths.
    #[schema(example = "my-org123")]
    pub id: String,
    /// This life of it.
    pub uuid: Uuid,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: Uuid,
    /// Always `open-source`.
    pub plan: String,
    /// Whether agents that neither a token nor a runner's key vouches for may ask to be adopted (`allowed`), or Canyon keeps
    /// no record of them (`refused`). The answer to such an agent is the same.
    #[serde(default)]
    #[schema(value_type = String, example = "allowed")]
    pub agent_requests: AgentRequests,
}

/// A change to an organization. What is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrganizationUpdateBody {
    /// `allowed` or `refused`. With `refused`, the agents that wait to be adopted are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub agent_requests: Option<AgentRequests>,
}

/// A new organization, with the one secret that opens it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewOrganization {
    /// The organization.
    #[serde(flatten)]
    pub organization: Organization,
    /// A token of its first admin. It is shown this once.
    pub admin_token: String,
}
