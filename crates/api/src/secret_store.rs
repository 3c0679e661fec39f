//! Secret stores.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// In the OpenAPI document: `store_configuration` of each type of store. See [`crate::runner::described`].
#[derive(Debug, ToSchema)]
pub struct StoreConfiguration {}

/// A place where jobs read secrets themselves, with their own identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SecretStore {
    /// The organization.
    pub org_id: String,
    /// Its id.
    #[schema(example = "team-vault")]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it is, and as whom a job reads; `type` determines the properties.
    #[schema(value_type = StoreConfiguration)]
    pub store_configuration: Map<String, Value>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to create a secret store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretStoreCreateBody {
    /// Its id.
    #[schema(example = "team-vault", max_length = 63)]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// Where it is, and as whom a job reads; `type` determines the properties.
    #[schema(value_type = StoreConfiguration)]
    pub store_configuration: Value,
}

/// A request to change a secret store. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretStoreUpdateBody {
    /// Purpose, for people; empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// Merged into the stored configuration (RFC 7396): `null` removes a property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub store_configuration: Option<Value>,
}
