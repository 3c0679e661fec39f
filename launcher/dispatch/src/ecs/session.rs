//! Clients of AWS's services, with the credentials of the runner's role, or of the agent's own.

use super::{EcsDefaults, Settings};
use crate::{AmbientAws, DispatchError, Target};
use aws_credential_types::Credentials;
use aws_sdk_ecs::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_types::timeout::TimeoutConfig;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::federation::{Endpoints, Federation, FederationError, RunnerIdentity};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// ECS answers in less than a second. A call that takes longer than this may have had its effect.
const TRY: Duration = Duration::from_secs(8);
const CONNECT: Duration = Duration::from_secs(3);
const ALL_TRIES: Duration = Duration::from_secs(20);
/// The limits of AWS STS for `RoleSessionName`.
const SESSION_NAME: std::ops::RangeInclusive<usize> = 3..=64;

/// What all clients send their requests with, so that they share connections.
pub(super) type Http = SharedHttpClient;

/// See [`Http`].
pub(super) fn http() -> Http {
    let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc);
    Builder::new().tls_provider(provider).build_https()
}

/// The services, as the runner's role.
#[derive(Clone)]
pub(super) struct Clients {
    access_key: String,
    pub(super) ecs: aws_sdk_ecs::Client,
    pub(super) logs: aws_sdk_cloudwatchlogs::Client,
}

/// By what a platform is let in.
#[derive(Clone)]
pub(super) enum Entry {
    /// The role that each runner names.
    Roles(Arc<Federation>),
    /// What the process itself is, in the one cluster that it is for.
    Ambient(Arc<AmbientAws>, EcsDefaults),
}

impl Entry {
    fn endpoints(&self) -> &Endpoints {
        match self {
            Self::Roles(federation) => federation.endpoints(),
            Self::Ambient(ambient, _) => ambient.endpoints(),
        }
    }
}

/// By what a runner is let in.
enum Login {
    Role { federation: Arc<Federation>, who: RunnerIdentity, auth: AwsAuth, name: String },
    Ambient(Arc<AmbientAws>),
}

/// Is let in again and again, as credentials end.
pub(super) struct Session {
    login: Login,
    endpoints: Endpoints,
    http: Http,
    region: String,
    clients: Mutex<Option<Clients>>,
}

/// The configuration of one service's client; the types differ and the members do not.
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
    /// Fails if the runner is not one that is let in so.
    pub(super) fn new(
        entry: &Entry,
        http: &Http,
        target: &Target,
        settings: &Settings,
    ) -> Result<Self, DispatchError> {
        let login = match (entry, &settings.auth) {
            (Entry::Roles(federation), Some(auth)) => Login::Role {
                federation: federation.clone(),
                who: RunnerIdentity { org: target.org, runner: target.runner },
                auth: auth.clone(),
                name: session_name(auth, target),
            },
            (Entry::Ambient(ambient, _), None) => Login::Ambient(ambient.clone()),
            (Entry::Roles(_), None) => {
                return Err(wrong_type(target, "only an agent launches"));
            }
            (Entry::Ambient(..), Some(_)) => {
                return Err(wrong_type(target, "Canyon itself launches, and no agent"));
            }
        };
        let endpoints = entry.endpoints().clone();
        Ok(Self::of(login, endpoints, http, &settings.job.region))
    }

    /// For no runner in particular.
    pub(super) fn in_place(ambient: &Arc<AmbientAws>, region: &str) -> Self {
        let endpoints = ambient.endpoints().clone();
        Self::of(Login::Ambient(ambient.clone()), endpoints, &ambient.http(), region)
    }

    fn of(login: Login, endpoints: Endpoints, http: &Http, region: &str) -> Self {
        let region = region.to_owned();
        Self { login, endpoints, http: http.clone(), region, clients: Mutex::default() }
    }

    /// Clients whose credentials are good for a while.
    pub(super) async fn clients(&self) -> Result<Clients, FederationError> {
        let credentials = match &self.login {
            Login::Role { federation, who, auth, name } => {
                federation.aws(*who, auth, &self.region, name).await?
            }
            Login::Ambient(ambient) => ambient.credentials().await?,
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) =
            clients.as_ref().filter(|known| known.access_key == credentials.access_key_id())
        {
            return Ok(known.clone());
        }
        Ok(clients.insert(self.with(&credentials)).clone())
    }

    /// Canyon's own token about the runner, to see whether it can be signed: with the name of whom it is
    /// for. None where nothing is signed.
    pub(super) async fn assertion(&self) -> Option<Result<&'static str, FederationError>> {
        let Login::Role { federation, who, auth, .. } = &self.login else { return None };
        // AWS's token service is another one in China.
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
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(TRY)
        .operation_timeout(ALL_TRIES)
        .build()
}

fn wrong_type(target: &Target, who: &str) -> DispatchError {
    let message = format!("for runner `{}`, of its type, {who}", target.runner_id);
    DispatchError::refused(FailureClass::Config, message)
}

/// The name that AWS's own log shows beside each call.
fn session_name(auth: &AwsAuth, target: &Target) -> String {
    auth.session_name.clone().unwrap_or_else(|| {
        let name = format!("{}-{}", target.org_id, target.runner_id);
        // Ids have no other characters than a session's name may have, and at least two of them.
        name.chars().take(*SESSION_NAME.end()).collect()
    })
}
