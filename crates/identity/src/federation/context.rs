//! What every token exchange needs.

use super::{ASSERTION_LIFETIME, Endpoints, FederationError, RunnerIdentity, post};
use crate::assertion::AssertionRequest;
use crate::aws_http;
use crate::issuer::Issuer;
use aws_sdk_sts::config::SharedHttpClient;
use canyon_domain::ports::Clock;
use reqwest::Client;
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};

pub(super) struct ExchangeContext {
    pub(super) issuer: Arc<Issuer>,
    pub(super) endpoints: Endpoints,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) aws_http: SharedHttpClient,
    http: OnceLock<Client>,
}

impl ExchangeContext {
    pub(super) fn new(issuer: Arc<Issuer>, endpoints: Endpoints, clock: Arc<dyn Clock>) -> Self {
        Self { issuer, endpoints, clock, aws_http: aws_http::client(), http: OnceLock::new() }
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
