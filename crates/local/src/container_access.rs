//! How containers of the machine's Docker engine reach the API.
//!
//! A container does not reach the loopback address of its host. So where the API listens there, the first job opens a
//! second listener at the address to which `host-gateway` leads, for packets that arrive at that interface: programs on
//! other machines do not reach it. See docs/decisions/0063.

use canyon_dispatch::DispatchError;
use canyon_dispatch::docker::{DockerPlatform, HostGateway};
use canyon_domain::failure::FailureClass;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, mpsc};

/// The name of the engine's machine in a job's container.
const MACHINE: &str = "host.docker.internal";
/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// The address of the API for containers, and the listener behind it.
pub(crate) struct ContainerAccess {
    url: String,
    listens_at: SocketAddr,
    /// Whether the address leads to the engine's machine.
    is_by_machine: bool,
    listeners: mpsc::Sender<TcpListener>,
    opened: Mutex<Option<HostGateway>>,
}

impl ContainerAccess {
    /// The access to an API that listens at `listens_at`. If the user gives `advertised`, containers use that address.
    /// `listeners` receives the second listener.
    pub(crate) fn new(
        advertised: Option<&str>,
        listens_at: SocketAddr,
        listeners: mpsc::Sender<TcpListener>,
    ) -> Self {
        let ip = listens_at.ip();
        let is_by_machine = advertised.is_none() && (ip.is_loopback() || ip.is_unspecified());
        let url = match advertised {
            Some(url) => url.to_owned(),
            None if is_by_machine => format!("http://{MACHINE}:{}", listens_at.port()),
            None => format!("http://{listens_at}"),
        };
        Self { url, listens_at, is_by_machine, listeners, opened: Mutex::default() }
    }

    /// The address of the API for containers.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The entries of `/etc/hosts` that a container needs for the address.
    pub(crate) fn extra_hosts(&self) -> Vec<String> {
        if self.is_by_machine { vec![format!("{MACHINE}:host-gateway")] } else { Vec::new() }
    }

    /// Makes the API reachable for containers of the engine, if it is not yet.
    ///
    /// # Errors
    ///
    /// If the engine does not answer, or the machine has no address that its containers reach.
    pub(crate) async fn open(&self, engine: &DockerPlatform) -> Result<(), DispatchError> {
        if !self.is_by_machine || self.listens_at.ip().is_unspecified() {
            return Ok(());
        }
        let mut opened = self.opened.lock().await;
        let gateway = engine.host_gateway().await?;
        if opened.as_ref() == Some(&gateway) {
            return Ok(());
        }
        if let HostGateway::Address(address, interface) = &gateway {
            let address = SocketAddr::new(*address, self.listens_at.port());
            let listener = listen(address, interface.as_deref())
                .map_err(|error| self.refused(address, &error))?;
            tracing::info!(%address, "listening for the containers of jobs");
            // The receiver is dropped when the server ends.
            let _ = self.listeners.send(listener).await;
        }
        *opened = Some(gateway);
        Ok(())
    }

    /// As [`Self::open`] for a job that runs already, until it has once succeeded.
    pub(crate) async fn reopen(&self, engine: &DockerPlatform) {
        if self.opened.lock().await.is_none()
            && let Err(error) = self.open(engine).await
        {
            tracing::debug!(%error, "containers cannot reach the API yet");
        }
    }

    fn refused(&self, address: SocketAddr, error: &io::Error) -> DispatchError {
        let message = format!(
            "containers cannot reach Canyon on {}, and it cannot listen on {address} for them: {error}; start \
             `canyon local` with --listen and an address of this machine that containers reach, or with \
             --advertise-url",
            self.listens_at
        );
        DispatchError::refused(FailureClass::Config, message)
    }
}

/// Listens on an address of this machine for packets that arrive at the interface.
fn listen(address: SocketAddr, interface: Option<&str>) -> io::Result<TcpListener> {
    let socket = match address.ip() {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind_device(interface.map(str::as_bytes))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_get_an_address_that_leads_to_the_machine_unless_the_user_gives_another() {
        let by_machine = ("http://host.docker.internal:8080", true);
        let cases = [
            (None, "127.0.0.1:8080", by_machine),
            (None, "[::1]:8080", by_machine),
            (None, "0.0.0.0:8080", by_machine),
            (None, "192.0.2.7:8080", ("http://192.0.2.7:8080", false)),
            (Some("https://canyon.example"), "127.0.0.1:8080", ("https://canyon.example", false)),
        ];
        for (advertised, listens_at, (url, is_by_machine)) in cases {
            let (listeners, _) = mpsc::channel(1);
            let access = ContainerAccess::new(advertised, listens_at.parse().unwrap(), listeners);
            assert_eq!(access.url(), url, "{listens_at}");
            let hosts: &[&str] =
                if is_by_machine { &["host.docker.internal:host-gateway"] } else { &[] };
            assert_eq!(access.extra_hosts(), hosts, "{listens_at}");
        }
    }
}
