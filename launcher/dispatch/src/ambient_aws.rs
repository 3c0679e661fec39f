//! Credentials of AWS that a process finds where it runs, and not by a token of Canyon's.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use canyon_domain::causes::Causes;
use canyon_domain::seam::Clock as _;
use canyon_identity::federation::{Endpoints, FederationError};
use canyon_identity::system::System;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// Credentials are not used any more this long before their end.
const MARGIN: Duration = Duration::from_mins(5);
/// How long credentials without an end are used before they are looked for again.
const LIFE: Duration = Duration::from_mins(5);

/// What an agent is let in by: keys in its environment, its pod's or task's role, its machine's.
#[derive(Debug)]
pub struct AmbientAws {
    provider: SharedCredentialsProvider,
    http: SharedHttpClient,
    endpoints: Endpoints,
    kept: Mutex<Option<(Credentials, SystemTime)>>,
}

impl AmbientAws {
    /// Asks `provider`, and calls AWS's services at `endpoints` by `http`. Makes no call.
    pub fn new(
        provider: SharedCredentialsProvider,
        http: SharedHttpClient,
        endpoints: Endpoints,
    ) -> Self {
        Self { provider, http, endpoints, kept: Mutex::default() }
    }

    /// The connections of all clients of AWS.
    pub(crate) fn http(&self) -> SharedHttpClient {
        self.http.clone()
    }

    /// Where AWS's services are.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Credentials that are good for a while.
    ///
    /// # Errors
    ///
    /// If there are none here, with what the sources said.
    pub async fn credentials(&self) -> Result<Credentials, FederationError> {
        let mut kept = self.kept.lock().await;
        let now: SystemTime = System.now().into();
        if let Some((credentials, until)) = &*kept
            && now < *until
        {
            return Ok(credentials.clone());
        }
        let found = self.provider.provide_credentials().await.map_err(|error| refusal(&error))?;
        let until = found.expiry().map_or(now + LIFE, |end| end - MARGIN);
        Ok(kept.insert((found, until)).0.clone())
    }
}

fn refusal(error: &CredentialsError) -> FederationError {
    let said = Causes(error);
    match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            FederationError::Refused(format!(
                "the agent finds no AWS credentials where it runs: give its pod, task or machine a role, or set \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: {said}"
            ))
        }
        _ => FederationError::Unavailable(format!(
            "the agent cannot get its AWS credentials: {said}"
        )),
    }
}
