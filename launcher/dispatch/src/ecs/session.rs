//! Clients of AWS's services, with the credentials of the runner's role.

use crate::Target;
use aws_credential_types::Credentials;
use aws_sdk_ecs::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_types::timeout::TimeoutConfig;
use canyon_domain::runner::ecs::ServerlessEcs;
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::federation::{Federation, FederationError, RunnerIdentity};
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

/// Is let in again and again, as credentials end.
pub(super) struct Session {
    federation: Arc<Federation>,
    http: Http,
    who: RunnerIdentity,
    auth: AwsAuth,
    region: String,
    name: String,
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
        if let Some(endpoint) = &$session.federation.endpoints().$endpoint {
            config = config.endpoint_url(endpoint);
        }
        $sdk::Client::from_conf(config.build())
    }};
}

impl Session {
    pub(super) fn new(
        federation: &Arc<Federation>,
        http: &Http,
        target: &Target,
        config: &ServerlessEcs,
    ) -> Self {
        Self {
            federation: federation.clone(),
            http: http.clone(),
            who: RunnerIdentity { org: target.org, runner: target.runner },
            auth: config.auth.clone(),
            region: config.job.region.clone(),
            name: session_name(&config.auth, target),
            clients: Mutex::default(),
        }
    }

    /// Clients whose credentials are good for a while.
    pub(super) async fn clients(&self) -> Result<Clients, FederationError> {
        let credentials =
            self.federation.aws(self.who, &self.auth, &self.region, &self.name).await?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) =
            clients.as_ref().filter(|known| known.access_key == credentials.access_key_id())
        {
            return Ok(known.clone());
        }
        Ok(clients.insert(self.with(&credentials)).clone())
    }

    /// For whom Canyon's own token is: AWS's token service, which is another one in China.
    pub(super) fn audience(&self) -> &'static str {
        if self.auth.role_arn.starts_with("arn:aws-cn:") {
            "sts.amazonaws.com.cn"
        } else {
            "sts.amazonaws.com"
        }
    }

    /// Canyon's own token about the runner, to see whether it can be signed.
    pub(super) async fn assertion(&self) -> Result<(), FederationError> {
        self.federation.assertion(self.who, self.audience()).await.map(drop)
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

/// The name that AWS's own log shows beside each call.
fn session_name(auth: &AwsAuth, target: &Target) -> String {
    auth.session_name.clone().unwrap_or_else(|| {
        let name = format!("{}-{}", target.org_id, target.runner_id);
        // Ids have no other characters than a session's name may have, and at least two of them.
        name.chars().take(*SESSION_NAME.end()).collect()
    })
}
