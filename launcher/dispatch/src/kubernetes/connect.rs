//! From a runner's definition to a client of its cluster.
//!
//! A client is kept for a few minutes for each runner and state of its definition, secrets included, and
//! is made by one caller while the others wait. With it ends what it was made of: the description of the
//! cluster that a cloud gave, and the bearer token.

mod aks;
mod eks;
mod given;
mod gke;

use super::errors::Place;
use crate::{DispatchError, Target};
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::RunnerConfiguration;
use canyon_domain::seam::Clock;
use canyon_identity::federation::{Federation, FederationError, RunnerIdentity};
use canyon_identity::system::System;
use http::Uri;
use jiff::Timestamp;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use kube::{Client, Config};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The longest that a client is used.
const LIFE: Duration = Duration::from_mins(5);
/// How long Canyon's own token is used: it is good for ten minutes, and may be five minutes old.
const ASSERTION_LIFE: Duration = Duration::from_secs(4 * 60 + 30);
/// A token is not used any more this long before its end.
const MARGIN: Duration = Duration::from_mins(1);
/// For the connection, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two bytes of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// More clients are not kept: those that are over their time go first.
const KEPT: usize = 500;

/// How a cluster is reached, and who Canyon is there.
#[derive(Debug)]
pub(super) struct Access {
    server: String,
    /// PEM in base64, as kubeconfigs have it. Without one, the system's authorities vouch.
    authority: Option<String>,
    proxy: Option<String>,
    identity: Identity,
    /// After this, another is to be made.
    until: Timestamp,
}

/// Who Canyon is in a cluster.
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

/// A client, and where it goes.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) place: Arc<Place>,
    until: Timestamp,
}

type Slot = Arc<tokio::sync::Mutex<Option<Connection>>>;

/// Makes clients and keeps them.
pub(super) struct Connector {
    federation: Arc<Federation>,
    clock: System,
    http: OnceLock<reqwest::Client>,
    slots: Mutex<HashMap<[u8; 32], Slot>>,
}

impl Connector {
    pub(super) fn new(federation: Arc<Federation>) -> Self {
        Self { federation, clock: System, http: OnceLock::new(), slots: Mutex::default() }
    }

    /// For the clouds. Made on first use: a machine without certificates can still run local jobs.
    fn http(&self) -> Result<&reqwest::Client, DispatchError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let made = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let client = made.map_err(|error| {
            let message = format!("cannot make an HTTP client: {}", Causes(&error));
            DispatchError::refused(FailureClass::Config, message)
        })?;
        Ok(self.http.get_or_init(|| client))
    }

    /// The client of the runner's cluster.
    pub(super) async fn connect(&self, target: &Target) -> Result<Connection, DispatchError> {
        let slot = self.slot(key_of(target));
        let mut kept = slot.lock().await;
        if let Some(connection) = &*kept
            && self.clock.now() < connection.until
        {
            return Ok(connection.clone());
        }
        let access = self.access(target).await?;
        let connection = connection(target, access).await?;
        *kept = Some(connection.clone());
        Ok(connection)
    }

    pub(super) fn federation(&self) -> &Federation {
        &self.federation
    }

    /// Gets what the cloud gives for Canyon's token, and says whose it is.
    pub(super) async fn exchange(&self, target: &Target) -> Result<String, DispatchError> {
        let said = match &target.definition.configuration {
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
        Ok(said)
    }

    /// The next call makes another client: the cluster did not know this one.
    pub(super) fn drop_client(&self, target: &Target) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&key_of(target));
    }

    fn slot(&self, key: [u8; 32]) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= KEPT && !slots.contains_key(&key) {
            let now = self.clock.now();
            let in_use = |slot: &Slot| match slot.try_lock() {
                Ok(kept) => kept.as_ref().is_some_and(|connection| now < connection.until),
                Err(_) => true,
            };
            slots.retain(|_, slot| in_use(slot));
            if slots.len() >= KEPT {
                slots.clear();
            }
        }
        slots.entry(key).or_default().clone()
    }

    async fn access(&self, target: &Target) -> Result<Access, DispatchError> {
        match &target.definition.configuration {
            RunnerConfiguration::Kubernetes(runner) => {
                given::access(self, target, &runner.cluster).await
            }
            RunnerConfiguration::Gke(runner) => gke::access(self, target, &runner.cluster).await,
            RunnerConfiguration::Eks(runner) => eks::access(self, target, &runner.cluster).await,
            RunnerConfiguration::Aks(runner) => aks::access(self, target, &runner.cluster).await,
            RunnerConfiguration::ServerlessEcs(_)
            | RunnerConfiguration::KubernetesAgent(_)
            | RunnerConfiguration::EcsAgent(_)
            | RunnerConfiguration::DockerAgent(_)
            | RunnerConfiguration::Local(_) => {
                Err(super::job::settings(target).err().unwrap_or_else(|| {
                    let message = format!("jobs of runner `{}` need an agent", target.runner_id);
                    DispatchError::refused(FailureClass::Config, message)
                }))
            }
        }
    }

    /// Until when something that ends at `ends_at` is used.
    fn until(&self, ends_at: Option<Timestamp>) -> Timestamp {
        let latest = self.clock.now() + LIFE;
        ends_at.map_or(latest, |end| (end - MARGIN).min(latest))
    }
}

/// The runner as clouds know it.
pub(super) fn identity_of(target: &Target) -> RunnerIdentity {
    RunnerIdentity { org: target.org, runner: target.runner }
}

/// A definition that was changed is another one, and so are its secrets.
fn key_of(target: &Target) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(target.org.0.as_bytes());
    hash.update(target.runner.0.as_bytes());
    let configuration = &target.definition.configuration;
    hash.update(serde_json::to_vec(configuration).unwrap_or_default());
    if let RunnerConfiguration::Kubernetes(runner) = configuration {
        let auth = &runner.cluster.auth;
        for secret in [&auth.client_key_data, &auth.service_account_token].into_iter().flatten() {
            hash.update([0]);
            hash.update(secret.expose_secret().as_bytes());
        }
    }
    hash.finalize().into()
}

/// The failure of a step before the cluster. Nothing was asked of the cluster yet.
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

async fn connection(target: &Target, access: Access) -> Result<Connection, DispatchError> {
    let place = Place {
        runner: target.runner_id.to_string(),
        server: access.server.clone(),
        proxy: access.proxy.clone(),
    };
    let until = access.until;
    let refused = |said: String| {
        let message = format!(
            "runner `{}`: the access to its cluster cannot be used: {said}",
            target.runner_id
        );
        DispatchError::refused(FailureClass::Config, message)
    };
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig(access), &options)
        .await
        .map_err(|error| refused(error.to_string()))?;
    config.accept_invalid_certs = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.write_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // What may be repeated, and when, is for the launcher to say.
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| refused(error.to_string()))?;
    Ok(Connection { client, place: Arc::new(place), until })
}

/// The form that kube reads completely, with data in place of files. Of a kubeconfig that came from
/// outside, only single fields ever get here: none can name a program or a file.
fn kubeconfig(access: Access) -> Kubeconfig {
    let name = "canyon".to_owned();
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
    let context = Context { cluster: name.clone(), user: Some(name.clone()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}

/// An address of a cluster that a cloud told: `https://`, with or without that written.
fn https(address: &str) -> Option<String> {
    let url =
        if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
    let parsed: Uri = url.parse().ok()?;
    (parsed.scheme_str() == Some("https") && parsed.host().is_some()).then_some(url)
}
