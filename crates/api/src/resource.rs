//! The resources of an environment.

use canyon_domain::resource;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// What container jobs have created in an environment under one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resource {
    /// Its name: `TYPE.CLASS#ID`.
    #[schema(example = "s3.default#photos")]
    pub name: String,
    /// Its type.
    #[schema(example = "s3")]
    pub r#type: String,
    /// Its class.
    #[schema(example = "default")]
    pub class: String,
    /// Its id.
    #[schema(example = "photos")]
    pub id: String,
    /// What makes it: `container` or `tofu`.
    #[serde(default)]
    #[schema(example = "container")]
    pub kind: String,
    /// `creating`, `ready`, `updating`, `failed` or `destroying`.
    pub status: String,
    /// The last deployment for it that succeeded: its outputs are the resource's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<Uuid>,
    /// The last check since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<ResourceCheck>,
    /// The launch of the first deployment for it.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of its last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A check of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceCheck {
    /// `in_sync`, `drifted`, or `unknown` if the check did not succeed.
    pub status: String,
    /// The deployment that checked.
    pub deployment_id: Uuid,
    /// Its end.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<&resource::Resource> for Resource {
    fn from(of: &resource::Resource) -> Self {
        Self {
            name: of.name.to_string(),
            r#type: of.name.resource_type().to_owned(),
            class: of.name.class().to_owned(),
            id: of.name.id().to_owned(),
            kind: of.kind().as_str().to_owned(),
            status: of.status.as_str().to_owned(),
            deployment_id: of.last_success.map(|id| id.0),
            last_check: of.last_check.map(|check| ResourceCheck {
                status: check.status.as_str().to_owned(),
                deployment_id: check.by.0,
                at: check.at,
            }),
            created_at: of.created_at,
            updated_at: of.updated_at,
        }
    }
}
