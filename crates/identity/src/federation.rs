//! Exchange of Canyon's own tokens for tokens of clouds, so that Canyon stores no secret of any
//! cloud.
//!
//! Each runner has a subject, `org:<uuid>:runner:<uuid>`, that no other runner ever has. A later
//! runner of the same name has another uuid, so a cloud does not trust it.

mod aws;
mod azure;
mod context;
pub mod endpoints;
mod error;
mod exchanges;
mod gcp;
mod gcp_exchange;
mod post;
mod quoting;

pub use endpoints::Endpoints;
pub use error::FederationError;
pub(crate) use post::reason;

use self::aws::RoleRequest;
use self::azure::TokenRequest;
use self::context::ExchangeContext;
use self::exchanges::{Exchanges, Key};
use self::gcp::AccountRequest;
use crate::issuer::Issuer;
use aws_credential_types::Credentials;
use aws_sdk_sts::config::SharedHttpClient;
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::ports::Clock;
use canyon_domain::runner::aks::AzureAuth;
use canyon_domain::runner::eks::AwsAuth;
use canyon_domain::runner::gke::GcpAuth;
use canyon_domain::trust::SERVER_CLAIM;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Lifetime of a token for a cloud. Canyon exchanges it at once.
const ASSERTION_LIFETIME: Duration = Duration::from_mins(10);

/// The runner that a cloud must trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunnerIdentity {
    /// The organization of the runner.
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
    /// When it expires. [`Federation`] returns it until shortly before.
    pub ends_at: Timestamp,
}

/// Exchanges tokens, and caches the results until shortly before they expire.
pub struct Federation {
    context: Arc<ExchangeContext>,
    roles: Exchanges<Credentials>,
    tokens: Exchanges<AccessToken>,
}

impl Federation {
    /// Signs with `issuer`, and calls the clouds at `endpoints`.
    pub fn new(issuer: Arc<Issuer>, endpoints: Endpoints, clock: Arc<dyn Clock>) -> Self {
        let context = Arc::new(ExchangeContext::new(issuer, endpoints, clock));
        Self { context, roles: Exchanges::default(), tokens: Exchanges::default() }
    }

    /// Addresses of the clouds.
    pub fn endpoints(&self) -> &Endpoints {
        &self.context.endpoints
    }

    /// Canyon's issuer URL, which a cloud must trust.
    pub fn issuer_url(&self) -> &str {
        self.context.issuer.url()
    }

    /// The HTTP client that all clients of AWS share.
    pub fn aws_http(&self) -> SharedHttpClient {
        self.context.aws_http.clone()
    }

    /// A token of Canyon about `who` for `audience`.
    ///
    /// # Errors
    ///
    /// [`FederationError::Assertion`] if it cannot be signed.
    pub async fn assertion(
        &self,
        who: RunnerIdentity,
        audience: &str,
    ) -> Result<SecretString, FederationError> {
        self.context.assertion(who, audience).await
    }

    /// Like [`Self::assertion`], for the API server at `server`, which the token names in the claim
    /// [`SERVER_CLAIM`]. An administrator chooses the server and the audience of a runner, so the
    /// audience alone does not bind the token: a server that receives it could present it to
    /// another server that trusts the same audience.
    ///
    /// # Errors
    ///
    /// [`FederationError::Assertion`] if it cannot be signed.
    pub async fn assertion_for_server(
        &self,
        who: RunnerIdentity,
        audience: &str,
        server: &str,
    ) -> Result<SecretString, FederationError> {
        let claims = Map::from_iter([(SERVER_CLAIM.to_owned(), Value::from(server))]);
        self.context.assertion_with(who, audience, claims).await
    }

    /// Credentials of the role `auth.role_arn`, with the session name `session_name`. `region` is
    /// the region of the runner; `auth.sts_region` overrides it.
    ///
    /// # Errors
    ///
    /// [`FederationError`], whose message states what to change.
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
        let context = Arc::clone(&self.context);
        self.roles.get(key, &self.context.clock, || request.exchange(context)).await
    }

    /// An access token of the service account `auth.gcp_service_account`, with all permissions of
    /// that account.
    ///
    /// # Errors
    ///
    /// [`FederationError`], whose message states what to change.
    pub async fn gcp(
        &self,
        who: RunnerIdentity,
        auth: &GcpAuth,
    ) -> Result<AccessToken, FederationError> {
        let request = AccountRequest { who, auth: auth.clone() };
        let key = Key::new(who, ["gcp", &auth.gcp_audience, &auth.gcp_service_account]);
        let context = Arc::clone(&self.context);
        self.tokens.get(key, &self.context.clock, || request.exchange(context)).await
    }

    /// An access token of the application `auth.client_id`, for `scope`.
    ///
    /// # Errors
    ///
    /// [`FederationError`], whose message states what to change.
    pub async fn azure(
        &self,
        who: RunnerIdentity,
        auth: &AzureAuth,
        scope: &str,
    ) -> Result<AccessToken, FederationError> {
        let request = TokenRequest { who, auth: auth.clone(), scope: scope.to_owned() };
        let key = Key::new(who, ["azure", &auth.tenant_id, &auth.client_id, scope]);
        let context = Arc::clone(&self.context);
        self.tokens.get(key, &self.context.clock, || request.exchange(context)).await
    }
}
