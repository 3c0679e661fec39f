//! Credentials for git repositories that an organization keeps for its jobs.
//!
//! A credential is for the repositories below an address, such as `https://git.example.com/net`, and is kept in a scope,
//! as variables are ([`crate::variables`]). For a repository a job uses the credential with the longest address that
//! covers it; of two scopes with the same address, that of the nearer one.

pub mod cloud;
pub mod edit;
pub mod repository_prefix;
pub mod secret;

use crate::ids::{OrgUuid, PrincipalId};
use crate::variable_scope::VariableScope;
use jiff::Timestamp;
use repository_prefix::RepositoryPrefix;
use secret::{GitSecret, GitSecretKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The most credentials of one scope.
pub const MAX_CREDENTIALS: usize = 20;

/// The credentials of one scope, by the repositories that they are for.
pub type GitCredentials = BTreeMap<RepositoryPrefix, GitCredential>;

/// A stored credential.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCredential {
    /// What callers may see of the secret.
    pub kind: GitSecretKind,
    /// The JSON of the [`GitSecret`], sealed with the master key for this organization, scope and address.
    pub sealed: String,
    /// Its purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it was last set.
    pub updated_at: Timestamp,
    /// The principal that set it.
    pub updated_by: PrincipalId,
}

impl fmt::Debug for GitCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitCredential").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A credential that a runner receives with its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGitCredential {
    /// The repositories that it is for. No other credential of the job has the same.
    pub repositories: RepositoryPrefix,
    /// The secret.
    pub secret: GitSecret,
    /// The scope in which it is kept, for messages.
    pub from: VariableScope,
}

/// The context in which the secret for `repositories` is sealed. A sealed secret that was copied to another organization,
/// scope or address does not open there.
pub fn sealing_context(
    org: OrgUuid,
    scope: &VariableScope,
    repositories: &RepositoryPrefix,
) -> String {
    format!("git-credential#{org}#{scope}#{repositories}")
}

/// The credentials of `sets` that a job gets: for each address that of the nearest scope.
pub fn effective<'a>(
    sets: impl IntoIterator<Item = (&'a VariableScope, &'a GitCredentials)>,
) -> BTreeMap<&'a RepositoryPrefix, (&'a VariableScope, &'a GitCredential)> {
    let mut found: BTreeMap<_, (&VariableScope, &GitCredential)> = BTreeMap::new();
    for (scope, credentials) in sets {
        for (repositories, credential) in credentials {
            let nearest = found.entry(repositories).or_insert((scope, credential));
            if *scope > *nearest.0 {
                *nearest = (scope, credential);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(description: &str) -> GitCredential {
        GitCredential {
            kind: GitSecretKind::Token { username: "x".to_owned() },
            sealed: "c2VhbGVk".to_owned(),
            description: Some(description.to_owned()),
            updated_at: Timestamp::UNIX_EPOCH,
            updated_by: PrincipalId(uuid::Uuid::nil()),
        }
    }

    #[test]
    fn of_the_same_address_the_nearest_scope_counts_in_any_order() {
        let prefix = |text: &str| -> RepositoryPrefix { text.parse().unwrap() };
        let set = |scope: &str, prefixes: &[&str]| {
            let scope: VariableScope = scope.parse().unwrap();
            let of = |text: &&str| (prefix(text), credential(&scope.to_string()));
            let all: GitCredentials = prefixes.iter().map(of).collect();
            (scope, all)
        };
        let mut sets = [
            set("organization", &["https://h", "https://h/a"]),
            set("project:pay", &["https://h/a", "ssh://h/a"]),
            set("project:pay/shop", &["https://h/a"]),
        ];
        for _ in 0..sets.len() {
            sets.rotate_left(1);
            let found = effective(sets.iter().map(|(scope, all)| (scope, all)));
            let from = found.iter().map(|(prefix, (scope, credential))| {
                assert_eq!(credential.description, Some(scope.to_string()));
                format!("{prefix} of {scope}")
            });
            assert_eq!(
                from.collect::<Vec<_>>(),
                [
                    "https://h of organization",
                    "https://h/a of project:pay/shop",
                    "ssh://h/a of project:pay"
                ]
            );
        }
    }

    #[test]
    fn a_stored_credential_is_not_printed() {
        assert!(!format!("{:?}", credential("x")).contains("c2VhbGVk"));
    }
}
