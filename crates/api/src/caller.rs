//! The caller itself.

use crate::scoped_role::ScopedRole;
use canyon_domain::principal::Role;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// The principal of a token, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Caller {
    /// Its id, as in `created_by` and in audit records.
    pub id: Uuid,
    /// Its organization.
    pub org_id: String,
    /// What it is.
    pub kind: CallerKind,
    /// Its name, if it has one: a person's name, the id of a service account, or the description of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For a person: the identity provider by which it has signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<String>,
    /// For a person: the groups for which that identity provider has rules, each written `PROVIDER/GROUP` as in rules for approvals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Its role in the whole organization.
    #[schema(value_type = String)]
    pub role: Role,
    /// Its further roles in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// When the token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// What a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerKind {
    /// A person, who has signed in by an identity provider.
    Person,
    /// A machine that has signed in as a service account.
    ServiceAccount,
    /// The holder of an API token.
    Token,
}
