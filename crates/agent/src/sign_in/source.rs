//! The source of the platform's token.

use super::SignInError;
use super::credential_helper::CredentialHelper;
use super::gcp::GcpMetadata;
use super::token_file::TokenFile;
use crate::settings::identity::SourceSettings;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::time::Duration;

/// The most bytes of a token. A form that Canyon accepts has at most 32 KiB.
pub(super) const MAX_LENGTH: usize = 24 * 1024;

/// How long a credential helper may run.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);

/// A source of tokens.
#[derive(Debug)]
pub enum Source {
    /// A file that the platform renews: the kubelet, the webhook of EKS, a mount.
    File(TokenFile),
    /// The metadata server of Google Cloud.
    Gcp(GcpMetadata),
    /// A program that prints a token.
    Helper(CredentialHelper),
}

impl Source {
    /// The source that the settings name. Makes no request yet.
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
                timeout: HELPER_TIMEOUT,
            }),
        })
    }

    /// A token, as new as the source has it.
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
        // Only the form is checked (header, claims and signature), so that nothing else is ever sent.
        let is_jwt = text.split('.').count() == 3
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.=".contains(&b));
        if is_jwt {
            Ok(token)
        } else {
            Err(SignInError(format!("{self} gave something that is not a JWT")))
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
