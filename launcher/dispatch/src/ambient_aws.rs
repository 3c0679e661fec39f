//! AWS credentials that a process finds where it runs, without a token of Canyon's.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use canyon_domain::causes::Causes;
use canyon_domain::ports::Clock as _;
use canyon_identity::federation::{Endpoints, FederationError};
use canyon_identity::system::System;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// Credentials are renewed this long before they expire.
const RENEWAL_MARGIN: Duration = Duration::from_mins(5);
/// How long credentials without an expiry are used before the provider is asked again.
const CACHE_LIFETIME: Duration = Duration::from_mins(5);

/// The agent's own credentials: keys in its environment, the role of its pod, task or machine.
#[derive(Debug)]
pub struct AmbientAws {
    provider: SharedCredentialsProvider,
    http: SharedHttpClient,
    endpoints: Endpoints,
    kept: Mutex<Option<(Credentials, SystemTime)>>,
}

impl AmbientAws {
    /// Creates credentials from `provider` for AWS services at `endpoints`, called over `http`.
    /// Makes no request.
    pub fn new(
        provider: SharedCredentialsProvider,
        http: SharedHttpClient,
        endpoints: Endpoints,
    ) -> Self {
        Self { provider, http, endpoints, kept: Mutex::default() }
    }

    /// The HTTP client that all AWS clients share.
    pub(crate) fn http(&self) -> SharedHttpClient {
        self.http.clone()
    }

    /// The endpoints of AWS services.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Credentials that stay valid for five minutes at least.
    ///
    /// # Errors
    ///
    /// [`FederationError`] with the provider's message, if it has no credentials or cannot get
    /// them.
    pub async fn credentials(&self) -> Result<Credentials, FederationError> {
        let mut kept = self.kept.lock().await;
        let now: SystemTime = System.now().into();
        if let Some((credentials, until)) = &*kept
            && now < *until
        {
            return Ok(credentials.clone());
        }
        let found = self.provider.provide_credentials().await.map_err(|error| refusal(&error))?;
        let until = found.expiry().map_or(now + CACHE_LIFETIME, |end| end - RENEWAL_MARGIN);
        Ok(kept.insert((found, until)).0.clone())
    }
}

fn refusal(error: &CredentialsError) -> FederationError {
    let reason = Causes(error);
    match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            FederationError::Refused(format!(
                "the agent finds no AWS credentials where it runs: give its pod, task or machine a role, or set \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: {reason}"
            ))
        }
        _ => FederationError::Unavailable(format!(
            "the agent cannot get its AWS credentials: {reason}"
        )),
    }
}
