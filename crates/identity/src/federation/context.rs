//! What every token exchange needs.

use super::{ASSERTION_LIFETIME, Endpoints, FederationError, RunnerIdentity, post};
use crate::assertion::AssertionRequest;
use crate::issuer::Issuer;
use aws_sdk_sts::config::SharedHttpClient;
use aws_smithy_http_client::{Builder, tls};
use canyon_domain::ports::Clock;
use reqwest::Client;
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};

pub(super) struct ExchangeContext {
    pub(super) issuer: Arc<Issuer>,
    pub(super) endpoints: Endpoints,
    pub(super) clock: Arc<dyn Clock>,
    aws_http: OnceLock<SharedHttpClient>,
    http: OnceLock<Client>,
}

impl ExchangeContext {
    pub(super) fn new(issuer: Arc<Issuer>, endpoints: Endpoints, clock: Arc<dyn Clock>) -> Self {
        let (aws_http, http) = (OnceLock::new(), OnceLock::new());
        Self { issuer, endpoints, clock, aws_http, http }
    }

    pub(super) async fn assertion(
        &self,
        who: RunnerIdentity,
        audience: &str,
    ) -> Result<SecretString, FederationError> {
        self.assertion_with(who, audience, Map::new()).await
    }

    pub(super) async fn assertion_with(
        &self,
        who: RunnerIdentity,
        audience: &str,
        claims: Map<String, Value>,
    ) -> Result<SecretString, FederationError> {
        let statement = AssertionRequest {
            subject: who.subject(),
            audience: audience.to_owned(),
            claims,
            lifetime: ASSERTION_LIFETIME,
        };
        Ok(self.issuer.assertion(&statement).await?)
    }

    /// Created on first use, because it reads the machine's root certificates.
    pub(super) fn aws_http(&self) -> SharedHttpClient {
        let make = || {
            let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc);
            Builder::new().tls_provider(provider).build_https()
        };
        self.aws_http.get_or_init(make).clone()
    }

    pub(super) fn http(&self) -> Result<Client, FederationError> {
        if let Some(client) = self.http.get() {
            return Ok(client.clone());
        }
        let made = post::client().map_err(|reason| {
            FederationError::Unavailable(format!("cannot create an HTTP client: {reason}"))
        })?;
        Ok(self.http.get_or_init(|| made).clone())
    }
}
