//! Accounts: identities at clouds that resource definitions name.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// In the OpenAPI document: `credentials` of each type of account. See [`crate::runner::described`].
#[derive(Debug, ToSchema)]
pub struct AccountCredentials {}

/// An identity at a cloud. Canyon exchanges its own token for it, and stores no keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// The organization.
    pub org_id: String,
    /// Its id.
    #[schema(example = "my-account")]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `aws-role`, `gcp-identity` or `azure-identity`.
    #[serde(rename = "type")]
    #[schema(example = "aws-role")]
    pub account_type: String,
    /// What Canyon exchanges its token for; `type` determines the properties. None of them is secret.
    #[schema(value_type = AccountCredentials)]
    pub credentials: Map<String, Value>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to create an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountCreateBody {
    /// Its id.
    #[schema(example = "my-account", pattern = "^[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9]$")]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// `aws-role`, `gcp-identity` or `azure-identity`. Types with stored keys are refused.
    #[serde(rename = "type")]
    #[schema(example = "aws-role")]
    pub account_type: String,
    /// What Canyon exchanges its token for; `type` determines the properties.
    #[schema(value_type = AccountCredentials)]
    pub credentials: Value,
}

/// A request to change an account. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountUpdateBody {
    /// Purpose, for people; empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// The stored type: a change of it is refused.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub account_type: Option<String>,
    /// Merged into the stored credentials (RFC 7396): `null` removes a property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub credentials: Option<Value>,
}
