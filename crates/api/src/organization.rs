//! Organizations.

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
