//! Credentials for git repositories that an organization keeps for its jobs.

use canyon_domain::secret_text::SecretText;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use uuid::Uuid;

/// The credentials of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitCredentials {
    /// What they apply to: `organization`, or `project:ID` (a project, or the projects of a group).
    #[schema(example = "project:shop")]
    pub scope: String,
    /// By the address of the repositories that each is for: `https://HOST[:PORT][/PATH]` or `ssh://HOST[:PORT][/PATH]`.
    pub credentials: BTreeMap<String, GitCredential>,
}

/// A credential, without its secret, which Canyon shows to no caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitCredential {
    /// `token`, `ssh_key`, `github_app` or `cloud_identity`. Later versions may have more.
    #[serde(rename = "type")]
    pub kind: String,
    /// Of a token: its user name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Of a key: the fingerprint, as `ssh-keygen -l` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Of a key: the keys of its host, as in a `known_hosts` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<String>,
    /// Of a GitHub App: its id or client id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Of a GitHub App: the id of the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installation_id: Option<u64>,
    /// Of an identity: the cloud at which the job's own identity reads, `aws` or `azure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_identity: Option<String>,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Time at which it was last set.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// The principal that set it.
    pub updated_by: Uuid,
}

/// A change of the credentials of one scope. Credentials that it does not name stay.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCredentialsUpdateBody {
    /// By the address of the repositories: `https://HOST[:PORT][/PATH]` or `ssh://HOST[:PORT][/PATH]`, without a user and
    /// without a password; `null` removes one.
    #[schema(schema_with = changes)]
    pub credentials: BTreeMap<String, Option<GitCredentialBody>>,
}

fn changes() -> Schema {
    let address =
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^(https|ssh)://.+$"));
    let null = ObjectBuilder::new().schema_type(Type::Null);
    let change = OneOfBuilder::new().item(null).item(Ref::from_schema_name("GitCredentialBody"));
    ObjectBuilder::new()
        .property_names(Some(Schema::from(address)))
        .additional_properties(Some(AdditionalProperties::RefOr(Schema::from(change).into())))
        .description(Some(
            "By the address of the repositories: `https://HOST[:PORT][/PATH]` or `ssh://HOST[:PORT][/PATH]`, without a user \
             and without a password; `null` removes one.",
        ))
        .into()
}

/// A change of one credential. A new one has exactly one of `token`, `ssh_key`, `github_app` and `cloud_identity`, which
/// replaces the secret before; without one the secret stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCredentialBody {
    /// For `https`: a token or password of 6 bytes to 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 6, max_length = 16384)]
    pub token: Option<SecretText>,
    /// The user name of the token. Default: `x-access-token`, which GitHub requires and GitLab accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub username: Option<String>,
    /// For `ssh`: a private key in the format of OpenSSH, without a passphrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 16384)]
    pub ssh_key: Option<SecretText>,
    /// Required with a key: the host's keys, as lines of a `known_hosts` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 8192)]
    pub known_hosts: Option<String>,
    /// For `https`: an installation of a GitHub App, whose short-lived token each job gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_app: Option<GithubAppBody>,
    /// For `https`: the job reads with its own identity at a cloud, and nothing is kept. `aws` is for `CodeCommit`
    /// (`git-codecommit.REGION.amazonaws.com`), `azure` for Azure Repos (`dev.azure.com`, `ORGANIZATION.visualstudio.com`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_identity: Option<CloudBody>,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
}

/// A cloud whose git servers know a job by its own identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudBody {
    /// AWS.
    Aws,
    /// Azure.
    Azure,
}

/// An installation of a GitHub App.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GithubAppBody {
    /// The id of the app, or its client id.
    #[schema(min_length = 1, max_length = 100)]
    pub app_id: String,
    /// The id of the installation.
    #[schema(minimum = 1)]
    pub installation_id: u64,
    /// The app's private key in PEM.
    #[schema(value_type = String, max_length = 16384)]
    pub private_key: SecretText,
}
