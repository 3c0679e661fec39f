//! What `canyon local` asks the engine of its own machine: its jobs, and where `host-gateway` leads, the name by which
//! a container reaches the machine.

use super::{DockerPlatform, names, refusal};
use crate::{DispatchError, JobRef};
use bollard::query_parameters::InspectNetworkOptions;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::OrgUuid;
use std::net::IpAddr;

/// The network of containers that name no other. The engine takes `host-gateway` from it.
const DEFAULT_NETWORK: &str = "bridge";
/// The network's option with the name of its interface on the engine's machine.
const INTERFACE: &str = "com.docker.network.bridge.name";
/// What an engine in a virtual machine of this machine calls its system.
const DOCKER_DESKTOP: &str = "Docker Desktop";

/// Where `host-gateway` leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostGateway {
    /// To this address of the engine's machine, at this interface.
    Address(IpAddr, Option<String>),
    /// To this machine's loopback: the engine is in a virtual machine, and forwards.
    Loopback,
}

impl DockerPlatform {
    /// The jobs of this organization that the engine has, dead or alive.
    ///
    /// # Errors
    ///
    /// If the engine does not answer.
    pub async fn jobs_of(&self, org: OrgUuid) -> Result<Vec<JobRef>, DispatchError> {
        let found = self.list(&names::of_organization(org)).await?;
        Ok(found.into_iter().map(|(_, job)| job).collect())
    }

    /// Where `host-gateway` leads on this engine.
    ///
    /// # Errors
    ///
    /// If the engine does not answer, or has no default network.
    pub async fn host_gateway(&self) -> Result<HostGateway, DispatchError> {
        let engine = &self.engine;
        let docker = engine.docker().await.map_err(|error| engine.unreachable(&error))?;
        let network = docker.inspect_network(DEFAULT_NETWORK, None::<InspectNetworkOptions>);
        // At once: every start of a job waits for both.
        let (info, found) = tokio::join!(docker.info(), network);
        let info = info.map_err(|error| engine.unreachable(&error))?;
        if info.operating_system.as_deref() == Some(DOCKER_DESKTOP) {
            return Ok(HostGateway::Loopback);
        }
        let found =
            found.map_err(|error| refusal::of_request(engine, "look at the network", &error))?;
        let interface = found.options.unwrap_or_default().remove(INTERFACE);
        let ranges = found.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        let mut gateways = ranges.iter().filter_map(|range| range.gateway.as_ref()?.parse().ok());
        let address = gateways.next().ok_or_else(|| {
            let message = format!(
                "network `{DEFAULT_NETWORK}` of the engine at {} has no gateway",
                engine.host()
            );
            DispatchError::refused(FailureClass::Config, message)
        })?;
        Ok(HostGateway::Address(address, interface))
    }
}
