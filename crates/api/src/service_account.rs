//! Service accounts: machines that sign in with tokens of other issuers.

use crate::scoped_role::ScopedRole;
use canyon_domain::principal::Role;
use canyon_domain::trust_policy::ClaimMatching;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A machine that signs in with a token of another issuer, and has no secret of Canyon's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceAccount {
    /// The organization.
    pub org_id: String,
    /// Its id.
    pub id: String,
    /// This life of it. Audit records and deployments name it as who asked.
    pub uuid: Uuid,
    /// What it is for.
    pub description: String,
    /// What it may do in the whole organization.
    #[schema(value_type = String, example = "agent")]
    pub role: Role,
    /// What else it may do in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: the only runner that it may serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Who may sign in as it.
    pub trust_policies: Vec<TrustPolicy>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// "A token of this issuer for this audience with these claims stands for the service account."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicy {
    /// Who must have signed the token: `iss`, byte for byte.
    #[schema(example = "https://issuer.example.com", max_length = 255)]
    pub issuer: String,
    /// Whom the token must be made for: one of its `aud`.
    #[schema(example = "canyon-acme", max_length = 256)]
    pub audience: String,
    /// Whether values are meant as they are (`STRING`), or `*` in them stands for any name (`GLOB`).
    #[serde(default)]
    #[schema(value_type = String, example = "STRING")]
    pub bound_claims_type: ClaimMatching,
    /// For each claim the value that it must have, or a list of values of which it must have one. `sub`,
    /// or another claim that names one thing for good, must be among them.
    pub bound_claims: BTreeMap<String, BoundValues>,
    /// The issuer's keys as a JSON Web Key Set, where Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<Value>,
    /// What tokens of this policy may do, in place of what the service account may: these scoped roles and nothing
    /// in the whole organization. Each of them must be among what the service account may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub scoped_roles: Vec<ScopedRole>,
}

/// What a claim may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text, or a list of texts")]
pub enum BoundValues {
    /// This value.
    One(String),
    /// One of these.
    Several(Vec<String>),
}

impl BoundValues {
    /// As a list.
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

/// A request to make a service account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountCreateBody {
    /// Its id.
    #[schema(example = "cluster-agent", max_length = 63)]
    pub id: String,
    /// What it is for.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub description: String,
    /// What it may do in the whole organization: `none`, `viewer`, `deployer`, `admin` or `agent`.
    #[schema(value_type = String, example = "agent")]
    pub role: Role,
    /// What else it may do in parts of the organization. With the role `none` it reads there alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: the only runner that it may serve; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Who may sign in as it.
    #[schema(min_items = 1, max_items = 10)]
    pub trust_policies: Vec<TrustPolicy>,
}

/// A request to change a service account. What is not given stays; tokens that it was issued are
/// refused from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountUpdateBody {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// What it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "agent")]
    pub role: Option<Role>,
    /// What else it may do in parts of the organization: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    pub scoped_roles: Option<Vec<ScopedRole>>,
    /// For the role `agent`: the only runner that it may serve; an empty text for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Who may sign in as it: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 10)]
    pub trust_policies: Option<Vec<TrustPolicy>>,
}
