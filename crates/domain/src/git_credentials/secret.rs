//! What proves to a git server that a job may read a repository.

use super::cloud::Cloud;
use crate::secret_text::SecretText;
use serde::{Deserialize, Serialize};

/// The secret of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GitSecret {
    /// A user name and a token or password, for HTTPS.
    Token {
        /// The user name.
        username: String,
        /// The token or password.
        token: SecretText,
    },
    /// A key, for SSH.
    SshKey {
        /// The private key in the format of OpenSSH, without a passphrase.
        private_key: SecretText,
        /// Lines of a `known_hosts` file: the keys by which ssh recognizes the host.
        known_hosts: String,
    },
    /// An installation of a GitHub App, for HTTPS. The runner gets a token for it, which may only read repositories and
    /// expires within an hour.
    GithubApp {
        /// The id of the app, or its client id.
        app_id: String,
        /// The id of the installation.
        installation_id: u64,
        /// The app's private key in PEM.
        private_key: SecretText,
    },
    /// The job's own identity at a cloud, for HTTPS. Nothing is kept.
    CloudIdentity {
        /// The cloud.
        cloud: Cloud,
    },
}

/// What callers may see of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GitSecretKind {
    /// [`GitSecret::Token`].
    Token {
        /// The user name.
        username: String,
    },
    /// [`GitSecret::SshKey`].
    SshKey {
        /// The fingerprint of the key, as `ssh-keygen -l` prints it.
        fingerprint: String,
        /// The host's keys.
        known_hosts: String,
    },
    /// [`GitSecret::GithubApp`].
    GithubApp {
        /// The id of the app, or its client id.
        app_id: String,
        /// The id of the installation.
        installation_id: u64,
    },
    /// [`GitSecret::CloudIdentity`].
    CloudIdentity {
        /// The cloud.
        cloud: Cloud,
    },
}

impl GitSecretKind {
    /// Its name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Token { .. } => "token",
            Self::SshKey { .. } => "ssh_key",
            Self::GithubApp { .. } => "github_app",
            Self::CloudIdentity { .. } => "cloud_identity",
        }
    }
}
