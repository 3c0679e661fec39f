//! The connection to a Docker engine, and what its errors mean.

use super::engine_user::EngineUser;
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

/// Limit of a request: the engine is on this machine, or a network away.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause before an engine that did not answer is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// An engine, to which [`Engine::docker`] connects.
pub(super) struct Engine {
    pub(super) user: EngineUser,
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
    pub(super) fn new(user: EngineUser, host: Host) -> Self {
        Self { user, host, connected: Mutex::default() }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// The connection, in the API version that both sides support.
    pub(super) async fn docker(&self) -> Result<Docker, Error> {
        let mut connected = self.connected.lock().await;
        if let Some(docker) = &*connected {
            return Ok(docker.clone());
        }
        let docker = connect(&self.host, REQUEST_TIMEOUT.as_secs())?.negotiate_version().await?;
        *connected = Some(docker.clone());
        Ok(docker)
    }

    /// Drops the connection after an error: the engine that comes back may have another version.
    pub(super) async fn forget(&self, error: &Error) {
        if !matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code != 400)
        {
            *self.connected.lock().await = None;
        }
    }

    /// The error of a request that was not sent: retry the same later.
    pub(super) fn unreachable(&self, error: &Error) -> DispatchError {
        DispatchError::later(FailureClass::Config, self.no_answer(error), RETRY_PAUSE)
    }

    /// The message for an engine that does not answer.
    pub(super) fn no_answer(&self, error: &Error) -> String {
        let hint = self.user.engine_hint(&self.host);
        format!("the Docker engine at {} does not answer: {}; {hint}", self.host, Causes(error))
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

/// The engine's message and status; `None` if it did not answer.
pub(super) fn status_and_message(error: &Error) -> Option<(u16, &str)> {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            Some((*status_code, message.trim()))
        }
        _ => None,
    }
}

/// Whether the engine answered that the object does not exist.
pub(super) fn is_missing(error: &Error) -> bool {
    status_and_message(error).is_some_and(|(status, _)| status == 404)
}

/// Whether the connection failed, so that the engine did not receive the request.
pub(super) fn was_not_sent(error: &Error) -> bool {
    match error {
        Error::SocketNotFoundError(_) => true,
        Error::HyperLegacyError { err } => err.is_connect(),
        _ => false,
    }
}
