//! Where a token of the place is from.

use super::SignInError;
use super::credential_helper::CredentialHelper;
use super::gcp::GcpMetadata;
use super::token_file::TokenFile;
use crate::settings::identity::SourceSettings;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::time::Duration;

/// Longer than any token that is taken (32 KiB is the most that a form of Canyon's may have).
pub(super) const MAX_LENGTH: usize = 24 * 1024;

/// How long a credential helper may take.
const HELPER: Duration = Duration::from_secs(30);

/// A source of tokens.
#[derive(Debug)]
pub enum Source {
    /// A file that somebody keeps fresh: the kubelet, the webhook of EKS, a mount.
    File(TokenFile),
    /// The metadata server of Google Cloud.
    Gcp(GcpMetadata),
    /// A program that writes one.
    Helper(CredentialHelper),
}

impl Source {
    /// What the settings name. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// [`SignInError`] when this machine cannot make requests.
    pub fn of(settings: &SourceSettings) -> Result<Self, SignInError> {
        Ok(match settings {
            SourceSettings::File(path) => Self::File(TokenFile { path: path.clone() }),
            SourceSettings::Gcp(host, audience) => Self::Gcp(GcpMetadata::new(host, audience)?),
            SourceSettings::Helper(program, arguments) => Self::Helper(CredentialHelper {
                program: program.clone(),
                arguments: arguments.clone(),
                patience: HELPER,
            }),
        })
    }

    /// A token, as fresh as the source has it.
    ///
    /// # Errors
    ///
    /// [`SignInError`] names the source and what is wrong.
    pub async fn token(&self) -> Result<SecretString, SignInError> {
        let token = match self {
            Self::File(file) => file.token(),
            Self::Gcp(metadata) => metadata.token().await,
            Self::Helper(helper) => helper.token().await,
        }?;
        let text = token.expose_secret();
        // Its form alone, so that nothing else is ever sent: header, claims and signature.
        let is_jwt = text.split('.').count() == 3
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.=".contains(&b));
        if is_jwt {
            Ok(token)
        } else {
            Err(SignInError(format!("{self} gave something that is no JWT")))
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "the file `{}`", file.path.display()),
            Self::Gcp(_) => f.write_str("Google Cloud's metadata server"),
            Self::Helper(helper) => {
                write!(f, "the credential helper `{}`", helper.program.display())
            }
        }
    }
}
