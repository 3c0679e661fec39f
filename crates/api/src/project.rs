//! Projects.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// Its id, or the path of groups that ends in it. In a URL its `/` is written `%2F`.
    #[schema(example = "sample-project")]
    pub id: String,
    /// This life of it.
    pub uuid: Uuid,
    /// What people call it.
    pub display_name: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// `active`; `deleting` while its environments are being deleted.
    pub status: String,
}

/// A request to make a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectCreateBody {
    /// Its id, or a path of groups that ends in it.
    #[schema(example = "payments/eu/api", max_length = 200)]
    pub id: String,
    /// What people call it; the id if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
}

/// A request to change a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectUpdateBody {
    /// What people call it.
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: String,
}
