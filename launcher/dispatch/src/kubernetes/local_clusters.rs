//! Which addresses of clusters and proxies Canyon does not go to, whoever names them.
//!
//! A runner's definition is written by an admin of an organization, and Canyon calls what it names from its own
//! machine. There, some addresses mean something else than anywhere outside: the machine itself, and the
//! metadata services of clouds, which would answer as if Canyon had asked for its own sake. The check is made
//! on what a name resolves to, and the connection goes to what was checked: there is no second resolution.

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

/// Whether clusters and proxies on Canyon's own machine are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalClusters {
    /// They are not: Canyon runs jobs for others.
    Refused,
    /// They are: Canyon runs on a laptop, as its user, with a cluster beside it.
    Allowed,
}

/// An address that is not gone to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {what}")]
pub(super) struct Refused {
    address: IpAddr,
    what: &'static str,
    /// Whether an installation may allow it.
    pub(super) may_be_allowed: bool,
}

impl LocalClusters {
    /// Whether `address` may be gone to.
    pub(super) fn judge(self, address: IpAddr) -> Result<(), Refused> {
        let (what, may_be_allowed) = match meant(address) {
            IpAddr::V4(v4) if v4.is_loopback() => ("this machine itself", true),
            // "This network" (RFC 1122, 3.2.1.3); of it, systems take 0.0.0.0 for the loopback.
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
                ("of no single machine", false)
            }
            IpAddr::V6(v6) if v6.is_multicast() => ("of no single machine", false),
            _ => return Ok(()),
        };
        if may_be_allowed && self == Self::Allowed {
            return Ok(());
        }
        Err(Refused { address, what, may_be_allowed })
    }

    /// Judges a host that is an address. Names are judged by [`Resolver`], when they are resolved.
    pub(super) fn judge_host(self, host: &str) -> Result<(), Refused> {
        host.trim_matches(['[', ']']).parse().map_or(Ok(()), |address| self.judge(address))
    }
}

/// The address that is really gone to: of IPv4 within IPv6, and of what a NAT64 translates (RFC 6052).
fn meant(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other,
    }
}

/// Resolves names to addresses that may be gone to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolver(pub(super) LocalClusters);

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    #[error(transparent)]
    Unknown(#[from] std::io::Error),
    #[error("it is not called")]
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
            // One that may not be gone to spoils the name: nobody mixes these by accident.
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
    fn this_machine_is_reached_only_if_the_installation_says_so() {
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
    async fn a_name_is_judged_by_what_it_resolves_to() {
        // The last three are addresses as the C library reads them, and none as URLs have them.
        for name in ["localhost", "2130706433", "0x7f.1", "127.1"] {
            let found = Resolver(LocalClusters::Refused).call(name.parse().unwrap()).await;
            assert!(matches!(found, Err(LookupError::Refused(_))), "{name}: {found:?}");
            let found = Resolver(LocalClusters::Allowed).call(name.parse().unwrap()).await;
            assert!(found.is_ok(), "{name}: {found:?}");
        }
    }
}
