//! Canyon's own tokens exchanged for those of clouds, so that no secret of any cloud is stored.
//!
//! Each runner has one subject, `org:<uuid>:runner:<uuid>`, that no other runner ever has: what a
//! cloud trusts is this life of this runner.

mod aws;
mod azure;
pub mod endpoints;
mod error;
mod exchanges;
mod gcp;
mod gcp_exchange;
mod parts;
mod post;
mod words;

pub use endpoints::Endpoints;
pub use error::FederationError;

use self::aws::RoleRequest;
use self::azure::TokenRequest;
use self::exchanges::{Exchanges, Key};
use self::gcp::AccountRequest;
use self::parts::Parts;
use crate::issuer::Issuer;
use aws_credential_types::Credentials;
use aws_sdk_sts::config::SharedHttpClient;
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::runner::aks::AzureAuth;
use canyon_domain::runner::eks::AwsAuth;
use canyon_domain::runner::gke::GcpAuth;
use canyon_domain::seam::Clock;
use canyon_domain::trust::SERVER_CLAIM;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long a token for a cloud is good. It is exchanged at once.
const ASSERTION_LIFE: Duration = Duration::from_mins(10);

/// The runner that a cloud is to let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunnerIdentity {
    /// Whose runner it is.
    pub org: OrgUuid,
    /// The runner.
    pub runner: RunnerUuid,
}

impl RunnerIdentity {
    /// The `sub` of the runner's tokens.
    pub fn subject(&self) -> String {
        canyon_domain::trust::subject(self.org, self.runner)
    }
}

/// A bearer token of a cloud.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// The token.
    pub secret: SecretString,
    /// When it ends. It is handed out until shortly before.
    pub ends_at: Timestamp,
}

/// Exchanges tokens, and keeps what it got until shortly before that ends.
pub struct Federation {
    parts: Arc<Parts>,
    roles: Exchanges<Credentials>,
    tokens: Exchanges<AccessToken>,
}

impl Federation {
    /// Signs with `issuer`, and calls the clouds at `endpoints`.
    pub fn new(issuer: Arc<Issuer>, endpoints: Endpoints, clock: Arc<dyn Clock>) -> Self {
        let parts = Arc::new(Parts::new(issuer, endpoints, clock));
        Self { parts, roles: Exchanges::default(), tokens: Exchanges::default() }
    }

    /// Where the clouds are.
    pub fn endpoints(&self) -> &Endpoints {
        &self.parts.endpoints
    }

    /// Canyon's name as an issuer: what a cloud has to trust.
    pub fn issuer_url(&self) -> &str {
        self.parts.issuer.url()
    }

    /// The connections of all clients of AWS.
    pub fn aws_http(&self) -> SharedHttpClient {
        self.parts.aws_http()
    }

    /// Canyon's own token about `who`, for `audience`.
    ///
    /// # Errors
    ///
    /// [`FederationError`] when it cannot be signed.
    pub async fn assertion(
        &self,
        who: RunnerIdentity,
        audience: &str,
    ) -> Result<SecretString, FederationError> {
        self.parts.assertion(who, audience).await
    }

    /// The same for the API server at `server`, which the token names in the claim [`SERVER_CLAIM`]. An administrator
    /// chooses the server and the audience of a runner, so the audience alone does not bind the token: a server that is
    /// shown it could show it to another one that trusts the same audience.
    ///
    /// # Errors
    ///
    /// [`FederationError`] when it cannot be signed.
    pub async fn assertion_for_server(
        &self,
        who: RunnerIdentity,
        audience: &str,
        server: &str,
    ) -> Result<SecretString, FederationError> {
        let claims = Map::from_iter([(SERVER_CLAIM.to_owned(), Value::from(server))]);
        self.parts.assertion_with(who, audience, claims).await
    }

    /// The credentials of the role `auth.role_arn`, in a session called `session_name`. `region` is
    /// that of the runner.
    ///
    /// # Errors
    ///
    /// [`FederationError`] says what to change.
    pub async fn aws(
        &self,
        who: RunnerIdentity,
        auth: &AwsAuth,
        region: &str,
        session_name: &str,
    ) -> Result<Credentials, FederationError> {
        let region = auth.sts_region.as_deref().unwrap_or(region).to_owned();
        let session_name = session_name.to_owned();
        let request = RoleRequest { who, role_arn: auth.role_arn.clone(), region, session_name };
        let asked = [&request.role_arn, &request.region, &request.session_name];
        let key = Key::new(who, asked.map(String::as_str));
        let parts = Arc::clone(&self.parts);
        self.roles.get(key, &self.parts.clock, || request.exchange(parts)).await
    }

    /// An access token of the service account `auth.gcp_service_account`, for all that this account
    /// may do.
    ///
    /// # Errors
    ///
    /// [`FederationError`] says what to change.
    pub async fn gcp(
        &self,
        who: RunnerIdentity,
        auth: &GcpAuth,
    ) -> Result<AccessToken, FederationError> {
        let request = AccountRequest { who, auth: auth.clone() };
        let key = Key::new(who, ["gcp", &auth.gcp_audience, &auth.gcp_service_account]);
        let parts = Arc::clone(&self.parts);
        self.tokens.get(key, &self.parts.clock, || request.exchange(parts)).await
    }

    /// An access token of the application `auth.client_id`, for `scope`.
    ///
    /// # Errors
    ///
    /// [`FederationError`] says what to change.
    pub async fn azure(
        &self,
        who: RunnerIdentity,
        auth: &AzureAuth,
        scope: &str,
    ) -> Result<AccessToken, FederationError> {
        let request = TokenRequest { who, auth: auth.clone(), scope: scope.to_owned() };
        let key = Key::new(who, ["azure", &auth.tenant_id, &auth.client_id, scope]);
        let parts = Arc::clone(&self.parts);
        self.tokens.get(key, &self.parts.clock, || request.exchange(parts)).await
    }
}
