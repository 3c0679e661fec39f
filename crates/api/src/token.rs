//! API tokens of people and machines.

use crate::scoped_role::ScopedRole;
use canyon_domain::principal::Role;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its id, with which it is revoked. Audit records name it.
    pub id: Uuid,
    /// What it is for.
    pub description: String,
    /// What it may do in the whole organization: `none`, `agent`, `viewer`, `deployer` or `admin`.
    #[schema(value_type = String)]
    pub role: Role,
    /// What else it may do in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// Of the role `agent`: the only runner that its agents serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Of the role `agent`: the labels that its agents have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// It is refused from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A new token, with its secret, which is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What to send as `Authorization: Bearer`.
    pub secret: String,
}

/// A request to make a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreateBody {
    /// What it is for.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub description: String,
    /// What it may do in the whole organization: `none`, `viewer`, `deployer`, `admin` or `agent`.
    #[schema(value_type = String, example = "deployer")]
    pub role: Role,
    /// What else it may do in parts of the organization. With the role `none` it reads there alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: the only runner that its agents serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// For the role `agent`: labels that its agents have, whatever they say themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its life in seconds, 1 to 31,536,000 (a year). Without it 90 days; with the role `agent`, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub expires_in_seconds: Option<u32>,
    /// Whether it lives until it is revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
}
