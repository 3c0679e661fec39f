//! Clients of AWS services, with the credentials of the runner's role or the agent's own.

use super::{EcsDefaults, Settings};
use crate::{AmbientAws, DispatchError, Target};
use aws_credential_types::Credentials;
use aws_sdk_ecs::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_smithy_types::timeout::TimeoutConfig;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::federation::{Endpoints, Federation, FederationError, RunnerIdentity};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Limit of one try: ECS answers in less than a second. A call that takes longer may have taken
/// effect.
const TRY_TIMEOUT: Duration = Duration::from_secs(8);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The limits of AWS STS for `RoleSessionName`.
const SESSION_NAME: std::ops::RangeInclusive<usize> = 3..=64;

/// The HTTP client of all AWS clients, which shares connections.
pub(super) type Http = SharedHttpClient;

/// The clients of the services, with one set of credentials.
#[derive(Clone)]
pub(super) struct Clients {
    access_key: String,
    pub(super) ecs: aws_sdk_ecs::Client,
    pub(super) logs: aws_sdk_cloudwatchlogs::Client,
}

/// Where a platform's credentials come from.
#[derive(Clone)]
pub(super) enum CredentialSource {
    /// Each runner names a role.
    Roles(Arc<Federation>),
    /// The process's own credentials, for the one cluster of its settings.
    Ambient(Arc<AmbientAws>, EcsDefaults),
}

impl CredentialSource {
    fn endpoints(&self) -> &Endpoints {
        match self {
            Self::Roles(federation) => federation.endpoints(),
            Self::Ambient(ambient, _) => ambient.endpoints(),
        }
    }
}

/// Where a runner's credentials come from.
enum RunnerCredentials {
    Role { federation: Arc<Federation>, who: RunnerIdentity, auth: AwsAuth, name: String },
    Ambient(Arc<AmbientAws>),
}

/// A runner's clients, which are replaced as credentials expire.
pub(super) struct Session {
    credentials_of: RunnerCredentials,
    endpoints: Endpoints,
    http: Http,
    region: String,
    clients: Mutex<Option<Clients>>,
}

/// Builds one service's client; the types differ, but their methods do not.
macro_rules! client {
    ($session:expr, $credentials:expr, $endpoint:ident, $sdk:ident) => {{
        let mut config = $sdk::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new($session.region.clone()))
            .credentials_provider($credentials.clone())
            .http_client($session.http.clone())
            .timeout_config(timeouts());
        if let Some(endpoint) = &$session.endpoints.$endpoint {
            config = config.endpoint_url(endpoint);
        }
        $sdk::Client::from_conf(config.build())
    }};
}

impl Session {
    /// Fails if the runner's type does not match `source`.
    pub(super) fn new(
        source: &CredentialSource,
        http: &Http,
        target: &Target,
        settings: &Settings,
    ) -> Result<Self, DispatchError> {
        let credentials_of = match (source, &settings.auth) {
            (CredentialSource::Roles(federation), Some(auth)) => RunnerCredentials::Role {
                federation: federation.clone(),
                who: RunnerIdentity { org: target.org, runner: target.runner },
                auth: auth.clone(),
                name: session_name(auth, target),
            },
            (CredentialSource::Ambient(ambient, _), None) => {
                RunnerCredentials::Ambient(ambient.clone())
            }
            (CredentialSource::Roles(_), None) => {
                return Err(wrong_type(target, "need an agent"));
            }
            (CredentialSource::Ambient(..), Some(_)) => {
                return Err(wrong_type(target, "are launched by Canyon itself, not by an agent"));
            }
        };
        let endpoints = source.endpoints().clone();
        Ok(Self::of(credentials_of, endpoints, http, &settings.job.region))
    }

    /// A session of the agent itself, for no particular runner.
    pub(super) fn in_place(ambient: &Arc<AmbientAws>, region: &str) -> Self {
        let endpoints = ambient.endpoints().clone();
        Self::of(RunnerCredentials::Ambient(ambient.clone()), endpoints, &ambient.http(), region)
    }

    fn of(
        credentials_of: RunnerCredentials,
        endpoints: Endpoints,
        http: &Http,
        region: &str,
    ) -> Self {
        let region = region.to_owned();
        Self { credentials_of, endpoints, http: http.clone(), region, clients: Mutex::default() }
    }

    /// Clients with valid credentials.
    pub(super) async fn clients(&self) -> Result<Clients, FederationError> {
        let credentials = match &self.credentials_of {
            RunnerCredentials::Role { federation, who, auth, name } => {
                federation.aws(*who, auth, &self.region, name).await?
            }
            RunnerCredentials::Ambient(ambient) => ambient.credentials().await?,
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) =
            clients.as_ref().filter(|known| known.access_key == credentials.access_key_id())
        {
            return Ok(known.clone());
        }
        Ok(clients.insert(self.with(&credentials)).clone())
    }

    /// Signs Canyon's own token about the runner, for the check, and returns its audience. `None`
    /// if the session needs no token.
    pub(super) async fn assertion(&self) -> Option<Result<&'static str, FederationError>> {
        let RunnerCredentials::Role { federation, who, auth, .. } = &self.credentials_of else {
            return None;
        };
        // AWS has a separate token service in China.
        let audience = if auth.role_arn.starts_with("arn:aws-cn:") {
            "sts.amazonaws.com.cn"
        } else {
            "sts.amazonaws.com"
        };
        Some(federation.assertion(*who, audience).await.map(|_| audience))
    }

    fn with(&self, credentials: &Credentials) -> Clients {
        Clients {
            access_key: credentials.access_key_id().to_owned(),
            ecs: client!(self, credentials, aws_ecs, aws_sdk_ecs),
            logs: client!(self, credentials, aws_logs, aws_sdk_cloudwatchlogs),
        }
    }
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(TRY_TIMEOUT)
        .operation_timeout(CALL_TIMEOUT)
        .build()
}

fn wrong_type(target: &Target, who: &str) -> DispatchError {
    let message = format!("jobs of runner `{}` {who}", target.runner_id);
    DispatchError::refused(FailureClass::Config, message)
}

/// The session name, which CloudTrail shows with each call.
fn session_name(auth: &AwsAuth, target: &Target) -> String {
    auth.session_name.clone().unwrap_or_else(|| {
        let name = format!("{}-{}", target.org_id, target.runner_id);
        // Ids contain only characters that a session name may have, and both together at least three.
        name.chars().take(*SESSION_NAME.end()).collect()
    })
}
