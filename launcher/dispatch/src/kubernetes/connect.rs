//! Creates a client of a cluster from a runner's definition.
//!
//! A client is cached for a few minutes for each runner and version of its definition, secrets included. One caller
//! creates it while the others wait. Its sources expire with it: the cloud's description of the cluster, and the token.

mod aks;
mod configured;
mod eks;
mod gke;
mod in_place;

pub use in_place::ClusterSource;

use super::client::{self, ClientError};
use super::errors::ClusterEndpoint;
use super::local_clusters::LocalClusters;
use crate::{DispatchError, Target};
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_domain::ports::Clock;
use canyon_domain::runner::RunnerConfiguration;
use canyon_domain::to_json::to_json_text;
use canyon_identity::federation::{Federation, FederationError, RunnerIdentity};
use canyon_identity::system::System;
use http::Uri;
use jiff::Timestamp;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The maximum time that a client is used.
const CLIENT_LIFETIME: Duration = Duration::from_mins(5);
/// How long Canyon's own token is used: it is valid for ten minutes, of which five may have passed.
const ASSERTION_LIFETIME: Duration = Duration::from_secs(4 * 60 + 30);
/// A token is replaced this long before it expires.
const TOKEN_MARGIN: Duration = Duration::from_mins(1);
/// Limit of the connection, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit between two reads of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of cached clients: expired ones are removed first.
const MAX_CLIENTS: usize = 500;

/// The address of a cluster and Canyon's credentials there.
#[derive(Debug)]
pub(super) struct Access {
    server: String,
    /// PEM in base64, as in kubeconfigs. `None`: the system's certificate authorities.
    authority: Option<String>,
    proxy: Option<String>,
    identity: Identity,
    /// When the access expires and must be replaced.
    until: Timestamp,
}

/// Canyon's credentials in a cluster.
#[derive(Debug)]
enum Identity {
    Bearer(SecretString),
    Certificate {
        /// PEM in base64.
        certificate: String,
        /// PEM in base64.
        key: SecretString,
    },
}

/// A client and its endpoint.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) place: Arc<ClusterEndpoint>,
    /// A hash of the server's address and its certificate authority.
    pub(super) fingerprint: String,
    until: Timestamp,
}

type Slot = Arc<tokio::sync::Mutex<Option<Connection>>>;

/// How clusters are found.
pub(super) enum AccessMethod {
    /// By each runner's definition.
    Federation(Arc<Federation>),
    /// By the agent's own source, for its only cluster.
    InPlace(Box<ClusterSource>),
}

/// Creates clients and caches them.
pub(super) struct Connector {
    way: AccessMethod,
    local: LocalClusters,
    clock: System,
    http: OnceLock<reqwest::Client>,
    slots: Mutex<HashMap<[u8; 32], Slot>>,
}

impl Connector {
    pub(super) fn new(way: AccessMethod, local: LocalClusters) -> Self {
        Self { way, local, clock: System, http: OnceLock::new(), slots: Mutex::default() }
    }

    /// The client for the clouds. Created on first use, because a machine without certificates can
    /// still run local jobs.
    fn http(&self) -> Result<&reqwest::Client, DispatchError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let made = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let client = made.map_err(|error| {
            let message = format!("cannot create an HTTP client: {}", Causes(&error));
            DispatchError::refused(FailureClass::Config, message)
        })?;
        Ok(self.http.get_or_init(|| client))
    }

    /// The client of the runner's cluster, from the cache or new.
    pub(super) async fn connect(&self, target: &Target) -> Result<Connection, DispatchError> {
        let slot = self.slot(key_of(target));
        let mut kept = slot.lock().await;
        if let Some(connection) = &*kept
            && self.clock.now() < connection.until
        {
            return Ok(connection.clone());
        }
        let runner = target.runner_id.as_str();
        let connection = if let AccessMethod::InPlace(source) = &self.way
            && let RunnerConfiguration::KubernetesAgent(_) = &target.definition.configuration
        {
            self.connect_in_place(runner, source).await?
        } else {
            let access = self.access(target).await?;
            let (shown, until) = (self.shown(target, &access.identity), access.until);
            connection(runner, (kubeconfig(access), None, true), self.local, shown, until).await?
        };
        *kept = Some(connection.clone());
        Ok(connection)
    }

    pub(super) fn way(&self) -> &AccessMethod {
        &self.way
    }

    /// The federation by which Canyon itself signs in.
    pub(super) fn federation(&self, target: &Target) -> Result<&Federation, DispatchError> {
        match &self.way {
            AccessMethod::Federation(federation) => Ok(federation),
            AccessMethod::InPlace(_) => {
                let message = format!(
                    "jobs of runner `{}` are launched by Canyon itself, not by an agent",
                    target.runner_id
                );
                Err(DispatchError::refused(FailureClass::Config, message))
            }
        }
    }

    /// Creates a client of the agent's cluster. `runner` is for messages.
    pub(super) async fn connect_in_place(
        &self,
        runner: &str,
        source: &ClusterSource,
    ) -> Result<Connection, DispatchError> {
        let in_place::Found { kubeconfig, context, is_proxied } =
            in_place::find(self, source).await?;
        let way = (kubeconfig, context, is_proxied);
        connection(runner, way, self.local, source.shown(), self.until(None)).await
    }

    /// Exchanges Canyon's token with the cloud, and describes the result.
    pub(super) async fn exchange(&self, target: &Target) -> Result<String, DispatchError> {
        let description = match &target.definition.configuration {
            RunnerConfiguration::Gke(runner) => {
                gke::token(self, target, &runner.cluster).await?;
                let account = &runner.cluster.auth.gcp_service_account;
                format!("an access token of {account}")
            }
            RunnerConfiguration::Eks(runner) => {
                eks::credentials(self, target, &runner.cluster).await?;
                format!("a session of {}", runner.cluster.auth.role_arn)
            }
            RunnerConfiguration::Aks(runner) => {
                aks::token(self, target, &runner.cluster).await?;
                format!("an access token of application {}", runner.cluster.auth.client_id)
            }
            _ => "nothing to exchange".to_owned(),
        };
        Ok(description)
    }

    /// Drops the cached client, because the cluster rejected its credentials.
    pub(super) fn drop_client(&self, target: &Target) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&key_of(target));
    }

    fn slot(&self, key: [u8; 32]) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_CLIENTS && !slots.contains_key(&key) {
            let now = self.clock.now();
            let in_use = |slot: &Slot| match slot.try_lock() {
                Ok(kept) => kept.as_ref().is_some_and(|connection| now < connection.until),
                Err(_) => true,
            };
            slots.retain(|_, slot| in_use(slot));
            if slots.len() >= MAX_CLIENTS {
                slots.clear();
            }
        }
        slots.entry(key).or_default().clone()
    }

    async fn access(&self, target: &Target) -> Result<Access, DispatchError> {
        match &target.definition.configuration {
            RunnerConfiguration::Kubernetes(runner) => {
                configured::access(self, target, &runner.cluster).await
            }
            RunnerConfiguration::Gke(runner) => gke::access(self, target, &runner.cluster).await,
            RunnerConfiguration::Eks(runner) => eks::access(self, target, &runner.cluster).await,
            RunnerConfiguration::Aks(runner) => aks::access(self, target, &runner.cluster).await,
            RunnerConfiguration::ServerlessEcs(_)
            | RunnerConfiguration::KubernetesAgent(_)
            | RunnerConfiguration::EcsAgent(_)
            | RunnerConfiguration::DockerAgent(_)
            | RunnerConfiguration::Docker(_)
            | RunnerConfiguration::Local(_) => {
                Err(super::job::settings(target).err().unwrap_or_else(|| {
                    let message = format!("jobs of runner `{}` need an agent", target.runner_id);
                    DispatchError::refused(FailureClass::Config, message)
                }))
            }
        }
    }

    /// The credentials that Canyon presents, and what the cluster needs to accept them.
    fn shown(&self, target: &Target, identity: &Identity) -> String {
        if let Identity::Certificate { .. } = identity {
            return "a client certificate: it must be signed by the authority of the API server's flag \
                `--client-ca-file`, and must not have expired"
                .to_owned();
        }
        match &target.definition.configuration {
            RunnerConfiguration::Gke(runner) => format!(
                "a token of Google's service account `{}`",
                runner.cluster.auth.gcp_service_account
            ),
            RunnerConfiguration::Eks(runner) => format!(
                "a login of role `{}`: the cluster needs an access entry for exactly this role",
                runner.cluster.auth.role_arn
            ),
            RunnerConfiguration::Aks(runner) => format!(
                "a token of Entra for application `{}` in tenant `{}`: the cluster must be bound to that tenant",
                runner.cluster.auth.client_id, runner.cluster.auth.tenant_id
            ),
            RunnerConfiguration::Kubernetes(runner) => match &runner.cluster.auth.oidc {
                Some(oidc) => format!(
                    "its own token with issuer `{}`, audience `{}`, subject `{}` and claim `server` \
                    `{}`: the API server's AuthenticationConfiguration must trust these",
                    self.issuer_url(),
                    oidc.audience,
                    identity_of(target).subject(),
                    runner.cluster.cluster_data.server
                ),
                None => "the runner's `service_account_token`: it has expired, or belongs to another cluster"
                    .to_owned(),
            },
            _ => "nothing".to_owned(),
        }
    }

    fn issuer_url(&self) -> &str {
        match &self.way {
            AccessMethod::Federation(federation) => federation.issuer_url(),
            AccessMethod::InPlace(_) => "none",
        }
    }

    /// Until when credentials that expire at `ends_at` are used.
    fn until(&self, ends_at: Option<Timestamp>) -> Timestamp {
        let latest = self.clock.now() + CLIENT_LIFETIME;
        ends_at.map_or(latest, |end| (end - TOKEN_MARGIN).min(latest))
    }
}

/// The runner's identity in tokens for clouds.
pub(super) fn identity_of(target: &Target) -> RunnerIdentity {
    RunnerIdentity { org: target.org, runner: target.runner }
}

/// The cache key of a target: it changes with the definition and its secrets.
fn key_of(target: &Target) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(target.org.0.as_bytes());
    hash.update(target.runner.0.as_bytes());
    let configuration = &target.definition.configuration;
    hash.update(to_json_text(configuration));
    if let RunnerConfiguration::Kubernetes(runner) = configuration {
        let auth = &runner.cluster.auth;
        for secret in [&auth.client_key_data, &auth.service_account_token].into_iter().flatten() {
            hash.update([0]);
            hash.update(secret.expose_secret().as_bytes());
        }
    }
    hash.finalize().into()
}

/// The error of a step before the cluster, which has had no effect there.
pub(super) fn of_federation(target: &Target, error: &FederationError) -> DispatchError {
    let message = format!("runner `{}`: {error}", target.runner_id);
    match error {
        FederationError::Refused(_) => DispatchError::refused(error.class(), message),
        FederationError::Assertion(_)
        | FederationError::Throttled(_)
        | FederationError::Unavailable(_) => {
            DispatchError::later(error.class(), message, Duration::from_secs(5))
        }
    }
}

/// Creates a client from a kubeconfig, the name of its context, and whether a proxy is used.
async fn connection(
    runner: &str,
    (kubeconfig, context, is_proxied): (Kubeconfig, Option<String>, bool),
    local: LocalClusters,
    shown: String,
    until: Timestamp,
) -> Result<Connection, DispatchError> {
    let refused = |reason: String| {
        let message =
            format!("runner `{runner}`: the access to its cluster cannot be used: {reason}");
        DispatchError::refused(FailureClass::Config, message)
    };
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| refused(Causes(&error).to_string()))?;
    if !is_proxied {
        config.proxy_url = None;
    }
    let text = |url: &Uri| url.to_string().trim_end_matches('/').to_owned();
    let fingerprint = fingerprint(&config);
    let place = ClusterEndpoint {
        runner: runner.to_owned(),
        server: text(&config.cluster_url),
        proxy: config.proxy_url.as_ref().map(text),
        shown,
    };
    config.accept_invalid_certs = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.write_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // The launcher decides what is retried, and when.
    config.default_retry = false;
    let client = client::signed_in(config, local).await.map_err(|error| match error {
        ClientError::Refused(error) => place.refused(error),
        ClientError::Unusable(reason) => refused(reason),
    })?;
    Ok(Connection { client, place: Arc::new(place), fingerprint, until })
}

fn fingerprint(config: &Config) -> String {
    let mut hash = Sha256::new();
    hash.update(config.cluster_url.to_string());
    for certificate in config.root_cert.iter().flatten() {
        hash.update([0]);
        hash.update(certificate);
    }
    hex::encode(hash.finalize())
}

/// A kubeconfig with data instead of files, for kube. Of a kubeconfig from outside, only single
/// fields get here, so none can name a program or a file.
fn kubeconfig(access: Access) -> Kubeconfig {
    let cluster = Cluster {
        server: Some(access.server),
        certificate_authority_data: access.authority,
        proxy_url: access.proxy,
        ..Cluster::default()
    };
    let user = match access.identity {
        Identity::Bearer(token) => AuthInfo { token: Some(token), ..AuthInfo::default() },
        Identity::Certificate { certificate, key } => AuthInfo {
            client_certificate_data: Some(certificate),
            client_key_data: Some(key),
            ..AuthInfo::default()
        },
    };
    in_place::single(cluster, user)
}

/// A cluster's address from a cloud, with `https://` added if missing; `None` if it is invalid.
fn https(address: &str) -> Option<String> {
    let url =
        if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
    let parsed: Uri = url.parse().ok()?;
    (parsed.scheme_str() == Some("https") && parsed.host().is_some()).then_some(url)
}
