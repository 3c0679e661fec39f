//! The addresses of clusters and proxies that Canyon does not connect to.
//!
//! A runner's definition is written by an administrator of an organization, and Canyon connects to
//! its addresses from its own machine. Some addresses have a special meaning there: the machine
//! itself, and the metadata services of clouds, which would answer as if Canyon had asked for
//! itself. Canyon checks the addresses to which a name resolves, and connects to the checked ones:
//! there is no second resolution.

use hyper_util::client::legacy::connect::dns::Name;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::Service;

/// Azure's wire server (Microsoft, "What is IP address 168.63.129.16?").
const AZURE_WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
/// Google's metadata server ("About VM metadata").
const GOOGLE_METADATA: Ipv6Addr = Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254);

/// Whether Canyon connects to clusters and proxies on its own machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalClusters {
    /// No: Canyon runs jobs for others.
    Refused,
    /// Yes: Canyon runs on a laptop, as its user, with a cluster beside it.
    Allowed,
}

/// An address that Canyon does not connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {what}")]
pub(super) struct Refused {
    address: IpAddr,
    what: &'static str,
    /// Whether a setting of the installation can allow it.
    pub(super) may_be_allowed: bool,
}

impl LocalClusters {
    /// Checks whether Canyon may connect to `address`.
    pub(super) fn judge(self, address: IpAddr) -> Result<(), Refused> {
        let (what, may_be_allowed) = match effective(address) {
            IpAddr::V4(v4) if v4.is_loopback() => ("this machine itself", true),
            // "This network" (RFC 1122, 3.2.1.3); systems treat its 0.0.0.0 as loopback.
            IpAddr::V4(v4) if v4.octets()[0] == 0 => ("this machine itself", true),
            IpAddr::V6(v6) if v6.is_loopback() || v6.is_unspecified() => {
                ("this machine itself", true)
            }
            IpAddr::V4(v4) if v4.is_link_local() => ("link-local", false),
            IpAddr::V6(v6) if v6.is_unicast_link_local() => ("link-local", false),
            IpAddr::V4(AZURE_WIRE_SERVER) | IpAddr::V6(GOOGLE_METADATA) => {
                ("a metadata service", false)
            }
            // Amazon's services on each machine are in fd00:ec2::/32 (Amazon EC2, "Access instance metadata").
            IpAddr::V6(v6) if v6.segments()[..2] == [0xfd00, 0xec2] => {
                ("a metadata service", false)
            }
            IpAddr::V4(v4) if v4.is_broadcast() || v4.is_multicast() => {
                ("no address of a single machine", false)
            }
            IpAddr::V6(v6) if v6.is_multicast() => ("no address of a single machine", false),
            _ => return Ok(()),
        };
        if may_be_allowed && self == Self::Allowed {
            return Ok(());
        }
        Err(Refused { address, what, may_be_allowed })
    }

    /// Checks a host that is an address. [`Resolver`] checks names, when it resolves them.
    pub(super) fn judge_host(self, host: &str) -> Result<(), Refused> {
        host.trim_matches(['[', ']']).parse().map_or(Ok(()), |address| self.judge(address))
    }
}

/// The effective address: the IPv4 address within an IPv6 one, also for NAT64 (RFC 6052).
fn effective(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other,
    }
}

/// Resolves names to addresses that Canyon may connect to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolver(pub(super) LocalClusters);

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    #[error(transparent)]
    Unknown(#[from] std::io::Error),
    #[error("Canyon does not connect to it")]
    Refused(#[from] Refused),
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self(local) = *self;
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            // One forbidden address forbids the name, because no legitimate name mixes both.
            found.iter().try_for_each(|found| local.judge(found.ip()))?;
            Ok(found.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(local: LocalClusters, host: &str) -> bool {
        local.judge_host(host).is_err()
    }

    #[test]
    fn this_machine_is_reached_only_if_the_installation_allows_it() {
        for host in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]"] {
            assert!(refused(LocalClusters::Refused, host), "{host}");
            assert!(!refused(LocalClusters::Allowed, host), "{host}");
        }
    }

    #[test]
    fn metadata_services_are_never_reached() {
        for host in [
            "169.254.169.254",
            "169.254.170.2",
            "168.63.129.16",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "[fd00:ec2::23]",
            "[fd20:ce::254]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::169.254.169.254]",
            "255.255.255.255",
        ] {
            assert!(refused(LocalClusters::Refused, host), "{host}");
            assert!(refused(LocalClusters::Allowed, host), "{host}");
        }
    }

    #[test]
    fn private_and_public_networks_are_reached() {
        for host in ["10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fd00::1]", "34.1.2.3"]
        {
            assert!(!refused(LocalClusters::Refused, host), "{host}");
        }
    }

    #[tokio::test]
    async fn a_name_is_checked_by_the_addresses_to_which_it_resolves() {
        // The C library parses the last three as addresses, but URLs do not.
        for name in ["localhost", "2130706433", "0x7f.1", "127.1"] {
            let found = Resolver(LocalClusters::Refused).call(name.parse().unwrap()).await;
            assert!(matches!(found, Err(LookupError::Refused(_))), "{name}: {found:?}");
            let found = Resolver(LocalClusters::Allowed).call(name.parse().unwrap()).await;
            assert!(found.is_ok(), "{name}: {found:?}");
        }
    }
}
