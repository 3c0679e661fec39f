//! Service accounts: machines that authenticate with tokens of other issuers.

use crate::scoped_role::ScopedRole;
use canyon_domain::principal::Role;
use canyon_domain::trust_policy::ClaimMatching;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A machine that authenticates with a token of another issuer and has no secret of Canyon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceAccount {
    /// The organization.
    pub org_id: String,
    /// Its id.
    pub id: String,
    /// Distinguishes it from earlier service accounts of the same id. Audit records and deployments
    /// contain it as their author.
    pub uuid: Uuid,
    /// Purpose, for people.
    pub description: String,
    /// Its role in the whole organization.
    #[schema(value_type = String, example = "agent")]
    pub role: Role,
    /// Its further roles in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: the only runner that it may serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// The tokens that may sign in as it.
    pub trust_policies: Vec<TrustPolicy>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// Accepts tokens of an issuer for an audience with certain claims as the service account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicy {
    /// The issuer of the token: `iss`, byte for byte.
    #[schema(example = "https://issuer.example.com", max_length = 255)]
    pub issuer: String,
    /// The audience of the token: one of its `aud`.
    #[schema(example = "canyon-acme", max_length = 256)]
    pub audience: String,
    /// Whether values match exactly (`STRING`), or `*` in them matches any name (`GLOB`).
    #[serde(default)]
    #[schema(value_type = String, example = "STRING")]
    pub bound_claims_type: ClaimMatching,
    /// For each claim the required value, or a list of allowed values. `sub`, or another claim that
    /// permanently identifies one thing, must be among them.
    pub bound_claims: BTreeMap<String, BoundValues>,
    /// The issuer's keys as a JSON Web Key Set, if Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<Value>,
    /// Roles of tokens of this policy, instead of those of the service account: only these scoped
    /// roles, and no role in the whole organization. Each must be covered by the roles of the
    /// service account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub scoped_roles: Vec<ScopedRole>,
}

/// Allowed values of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a string or a list of strings")]
pub enum BoundValues {
    /// Exactly this value.
    One(String),
    /// One of these values.
    Several(Vec<String>),
}

impl BoundValues {
    /// The values as a list.
    pub fn into_list(self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value],
            Self::Several(values) => values,
        }
    }
}

impl From<Vec<String>> for BoundValues {
    fn from(mut values: Vec<String>) -> Self {
        match (values.pop(), values.is_empty()) {
            (Some(only), true) => Self::One(only),
            (last, _) => Self::Several(values.into_iter().chain(last).collect()),
        }
    }
}

/// A request to create a service account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountCreateBody {
    /// Its id.
    #[schema(example = "cluster-agent", max_length = 63)]
    pub id: String,
    /// Purpose, for people.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub description: String,
    /// Its role in the whole organization: `none`, `viewer`, `deployer`, `admin` or `agent`.
    #[schema(value_type = String, example = "agent")]
    pub role: Role,
    /// Its further roles in parts of the organization. With the role `none`, it can read only
    /// there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: the only runner that it may serve; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// The tokens that may sign in as it.
    #[schema(min_items = 1, max_items = 10)]
    pub trust_policies: Vec<TrustPolicy>,
}

/// A request to change a service account. An absent field keeps its value. Tokens that were issued
/// to it before become invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountUpdateBody {
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// Its role in the whole organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "agent")]
    pub role: Option<Role>,
    /// All its further roles in parts of the organization; replaces the existing ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    pub scoped_roles: Option<Vec<ScopedRole>>,
    /// For the role `agent`: the only runner that it may serve; an empty string for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// All its trust policies; replaces the existing ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 10)]
    pub trust_policies: Option<Vec<TrustPolicy>>,
}
