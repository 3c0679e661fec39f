//! The connection to an engine, and what its refusals mean.

use super::settings::Host;
use crate::DispatchError;
use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, Docker};
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use tokio::sync::Mutex;

/// The engine is beside its agent, or a network away.
const ANSWER: Duration = Duration::from_secs(20);
/// When an engine that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// An engine. What it is asked for by name goes through [`Engine::docker`].
pub(super) struct Engine {
    host: Host,
    connected: Mutex<Option<Docker>>,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{path}"),
            Self::Plain(address) => write!(f, "tcp://{address}"),
            Self::Tls(address, _) => write!(f, "https://{address}"),
        }
    }
}

impl Engine {
    pub(super) fn new(host: Host) -> Self {
        Self { host, connected: Mutex::default() }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// The connection, in the version of the API that both sides speak.
    pub(super) async fn docker(&self) -> Result<Docker, Error> {
        let mut connected = self.connected.lock().await;
        if let Some(docker) = &*connected {
            return Ok(docker.clone());
        }
        let docker = connect(&self.host, ANSWER.as_secs())?.negotiate_version().await?;
        *connected = Some(docker.clone());
        Ok(docker)
    }

    /// An engine that comes back may be another version.
    pub(super) async fn forget(&self, error: &Error) {
        if !matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code != 400)
        {
            *self.connected.lock().await = None;
        }
    }

    /// Nothing was asked yet: the same again, later.
    pub(super) fn unreachable(&self, error: &Error) -> DispatchError {
        DispatchError::later(FailureClass::Config, self.silence(error), PAUSE)
    }

    /// Why it is not known.
    pub(super) fn silence(&self, error: &Error) -> String {
        let hint = match &self.host {
            Host::Unix(_) => {
                "; is the engine up, and may this user open its socket? `host` says where it is"
            }
            Host::Plain(_) => {
                "; is the engine up, and does it listen there? `host` says where it is"
            }
            Host::Tls(..) => {
                "; is the engine up, and are the certificates in DOCKER_CERT_PATH those that it trusts?"
            }
        };
        format!("the Docker engine at {} does not answer: {}{hint}", self.host, Causes(error))
    }
}

fn connect(host: &Host, seconds: u64) -> Result<Docker, Error> {
    match host {
        Host::Unix(path) => Docker::connect_with_unix(path, seconds, API_DEFAULT_VERSION),
        Host::Plain(address) => {
            Docker::connect_with_http(&format!("tcp://{address}"), seconds, API_DEFAULT_VERSION)
        }
        Host::Tls(address, folder) => {
            let file = |name: &str| Path::new(folder).join(name);
            let (key, certificate, authority) = (file("key.pem"), file("cert.pem"), file("ca.pem"));
            let address = format!("tcp://{address}");
            Docker::connect_with_ssl(
                &address,
                &key,
                &certificate,
                &authority,
                seconds,
                API_DEFAULT_VERSION,
            )
        }
    }
}

/// What the engine said, and with which status; none, if it said nothing.
pub(super) fn words(error: &Error) -> Option<(u16, &str)> {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            Some((*status_code, message.trim()))
        }
        _ => None,
    }
}

/// Whether what was asked about is not there.
pub(super) fn is_missing(error: &Error) -> bool {
    words(error).is_some_and(|(status, _)| status == 404)
}

/// Whether the connection itself failed, so that the request was not received.
pub(super) fn was_not_sent(error: &Error) -> bool {
    match error {
        Error::SocketNotFoundError(_) => true,
        Error::HyperLegacyError { err } => err.is_connect(),
        _ => false,
    }
}
