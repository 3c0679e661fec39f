//! Identity providers: issuers whose people sign in.

use crate::scoped_role::ScopedRole;
use canyon_domain::principal::Role;
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// An issuer whose people sign in to the organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdentityProvider {
    /// Its organization.
    pub org_id: String,
    /// Its id, unique in the organization.
    pub id: String,
    /// Its uuid, which is never reused.
    pub uuid: Uuid,
    /// Purpose, for people.
    pub description: String,
    /// The issuer: the `iss` of its tokens.
    pub issuer: String,
    /// The client that Canyon is at the issuer: the `aud` of its tokens.
    pub client_id: String,
    /// The scopes that `canyon login` asks the issuer for.
    pub scopes: Vec<String>,
    /// The claim with a person's name.
    pub name_claim: String,
    /// The claim with a person's groups: a text or a list of texts.
    pub groups_claim: String,
    /// The issuer's keys (RFC 7517), where Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<Value>,
    /// What groups may do.
    pub rules: Vec<GroupRule>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A role of the people of a group: in the whole organization, or where all given conditions hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRule {
    /// The group, as the issuer writes it. It is compared literally.
    #[schema(example = "payments-developers", max_length = 256)]
    pub group: String,
    /// The role: `viewer`, `deployer` or `admin`.
    #[serde(deserialize_with = "role_of_group")]
    #[schema(value_type = String, example = "deployer")]
    pub role: Role,
    /// Only in this project or the projects of this group of projects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "payments")]
    pub project_id: Option<String>,
    /// Only in environments of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "development")]
    pub env_type_id: Option<String>,
    /// Only in this environment of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
}

/// A role, of which an unknown one is refused with those that a group may have.
fn role_of_group<'de, D: Deserializer<'de>>(from: D) -> Result<Role, D::Error> {
    let text = String::deserialize(from)?;
    serde_json::from_value(text.as_str().into())
        .map_err(|_| D::Error::unknown_variant(&text, &["viewer", "deployer", "admin"]))
}

impl GroupRule {
    /// The group, and the role in a part of the organization. `Err` with the role in the whole organization if the
    /// rule names no part.
    pub fn into_parts(self) -> (String, Result<ScopedRole, Role>) {
        let Self { group, role, project_id, env_type_id, env_id } = self;
        if project_id.is_none() && env_type_id.is_none() && env_id.is_none() {
            return (group, Err(role));
        }
        (group, Ok(ScopedRole { role, project_id, env_type_id, env_id }))
    }
}

/// A request to create an identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentityProviderCreateBody {
    /// Its id.
    #[schema(example = "company", max_length = 63)]
    pub id: String,
    /// Purpose, for people.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub description: String,
    /// The issuer: the `iss` of its tokens.
    #[schema(example = "https://login.example.com")]
    pub issuer: String,
    /// The client that Canyon is at the issuer: a public one, without a secret.
    #[schema(example = "canyon", max_length = 256)]
    pub client_id: String,
    /// The scopes that `canyon login` asks the issuer for. `canyon login` adds `offline_access` where the issuer
    /// supports it.
    #[serde(default = "default_scopes")]
    #[schema(max_items = 20)]
    pub scopes: Vec<String>,
    /// The claim with a person's name. A token without it is accepted: its `sub` is the name.
    #[serde(default = "default_name_claim")]
    #[schema(example = "email", max_length = 256)]
    pub name_claim: String,
    /// The claim with a person's groups: a text or a list of texts.
    #[serde(default = "default_groups_claim")]
    #[schema(example = "groups", max_length = 256)]
    pub groups_claim: String,
    /// The issuer's keys (RFC 7517), where Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<Value>,
    /// What groups may do. A person has the roles of all rules for its groups, and cannot sign in without any.
    #[schema(min_items = 1, max_items = 50)]
    pub rules: Vec<GroupRule>,
}

fn default_scopes() -> Vec<String> {
    ["openid", "profile", "email"].map(str::to_owned).into()
}

fn default_name_claim() -> String {
    "email".to_owned()
}

fn default_groups_claim() -> String {
    "groups".to_owned()
}

/// A request to change an identity provider. An absent field keeps its value. Its people must sign in again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentityProviderUpdateBody {
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// The issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The client that Canyon is at the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub client_id: Option<String>,
    /// All scopes; replaces the existing ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    pub scopes: Option<Vec<String>>,
    /// The claim with a person's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub name_claim: Option<String>,
    /// The claim with a person's groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub groups_claim: Option<String>,
    /// The issuer's keys; an empty object to fetch them from the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub jwks: Option<Value>,
    /// All rules; replaces the existing ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 50)]
    pub rules: Option<Vec<GroupRule>>,
}

/// What a program needs to have a person sign in at an issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInChoice {
    /// The id of the identity provider, for the exchange.
    pub id: String,
    /// Its purpose, for people.
    pub description: String,
    /// The issuer. Its configuration is at `<issuer>/.well-known/openid-configuration`.
    pub issuer: String,
    /// The client.
    pub client_id: String,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
}

/// The ways to sign in to an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInChoices {
    /// The identity providers, by id. Also empty if the organization does not exist.
    pub items: Vec<SignInChoice>,
}
