//! Projects.

use canyon_domain::change::Change;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// Its id, or a path of groups that ends with it. In a URL, `/` is encoded as `%2F`.
    #[schema(example = "sample-project")]
    pub id: String,
    /// Distinguishes it from earlier projects of the same id.
    pub uuid: Uuid,
    /// Name for people.
    pub display_name: String,
    /// The runner profile of its deployments, on runners whose `profile` contains `${project.profile}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "${project.id}-${env_type.id}")]
    pub profile: Option<String>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// `active`, or `deleting` while its environments are deleted.
    pub status: String,
}

/// A request to create a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectCreateBody {
    /// Its id, or a path of groups that ends with it.
    #[schema(example = "payments/eu/api", max_length = 200)]
    pub id: String,
    /// Name for people; default: the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// The runner profile of its deployments, on runners whose `profile` contains `${project.profile}`. It may contain
    /// the references of a runner's `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, example = "${project.id}-${env_type.id}")]
    pub profile: Option<String>,
}

/// A request to change a project. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectUpdateBody {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 60)]
    pub display_name: Option<String>,
    /// The runner profile of its deployments, on runners whose `profile` contains `${project.profile}`; `null` removes it.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub profile: Change<String>,
}
