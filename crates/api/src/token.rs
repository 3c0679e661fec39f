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
    /// Its id, with which it is revoked. Audit records contain it.
    pub id: Uuid,
    /// Purpose, for people.
    pub description: String,
    /// Its role in the whole organization: `none`, `agent`, `viewer`, `deployer` or `admin`.
    #[schema(value_type = String)]
    pub role: Role,
    /// Its further roles in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// With the role `agent`: the only runner that its agents serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// With the role `agent`: labels of its agents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A new token with its secret, which is shown only once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// The secret, for `Authorization: Bearer`.
    pub secret: String,
}

/// A request to create a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreateBody {
    /// Purpose, for people.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub description: String,
    /// Its role in the whole organization: `none`, `viewer`, `deployer`, `admin` or `agent`.
    #[schema(value_type = String, example = "deployer")]
    pub role: Role,
    /// Its further roles in parts of the organization. With the role `none`, it can read only
    /// there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: the only runner that its agents serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// For the role `agent`: labels of its agents, which override the labels that they report.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its lifetime in seconds, 1 to 31,536,000 (a year). Default: 90 days; with the role `agent`,
    /// no expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub expires_in_seconds: Option<u32>,
    /// Whether it is valid until it is revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
}
