//! The address at which probes are answered.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::net::TcpListener;

/// An address with a port, or a port on every address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Listens at this address only.
    At(SocketAddr),
    /// Listens at every address of the machine, of IPv4 and IPv6: a cluster's probes connect to the pod's own address,
    /// which is of either kind.
    Everywhere(u16),
}

impl Listen {
    /// The notation, for messages.
    pub const FORM: &'static str = "ADDRESS:PORT, or :PORT for every address";

    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// When the machine does not have the address, or another process listens there.
    pub async fn bind(self) -> io::Result<TcpListener> {
        let port = match self {
            Self::At(address) => return TcpListener::bind(address).await,
            Self::Everywhere(port) => port,
        };
        // A socket of IPv6 accepts IPv4 too, as long as net.ipv6.bindv6only is 0, which is the default (ipv6(7)).
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            Err(error) if lacks_ipv6(&error) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
            }
            bound => bound,
        }
    }

    /// The address at which a process of this machine connects to the agent.
    pub fn reached_at(self) -> SocketAddr {
        match self {
            Self::Everywhere(port) => (Ipv4Addr::LOCALHOST, port).into(),
            Self::At(address) if address.ip().is_unspecified() => {
                let loopback = match address.ip() {
                    IpAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
                    IpAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
                };
                (loopback, address.port()).into()
            }
            Self::At(address) => address,
        }
    }
}

/// Whether the kernel has no IPv6 (`ipv6.disable=1`), or no address of it.
fn lacks_ipv6(error: &io::Error) -> bool {
    let lacking = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| lacking.contains(&code))
}

impl FromStr for Listen {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(':').and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Self::Everywhere(port)),
            None => text.parse().map(Self::At),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => write!(f, "{address}"),
            Self::Everywhere(port) => write!(f, ":{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[test]
    fn an_address_has_a_port_and_a_port_without_address_means_every_address() {
        for (text, reached_at) in [
            (":8080", "127.0.0.1:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("127.0.0.97:1", "127.0.0.97:1"),
            ("[fd00::7]:8080", "[fd00::7]:8080"),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!(listen.reached_at().to_string(), reached_at, "{text}");
        }
        for text in ["", ":", "8080", "::8080", ":65536", "localhost:8080", "127.0.0.1"] {
            assert!(text.parse::<Listen>().is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_port_on_every_address_is_reached_through_ipv4_and_ipv6() {
        let listener = Listen::Everywhere(0).bind().await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
        let taken = Listen::Everywhere(port).bind().await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "not taken for a machine without IPv6");
    }

    #[test]
    fn a_machine_without_ipv6_is_recognized_by_the_error_of_its_kernel() {
        for (error, lacks) in [
            (Errno::AFNOSUPPORT, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::ADDRINUSE, false),
            (Errno::ACCESS, false),
        ] {
            assert_eq!(lacks_ipv6(&error.into()), lacks, "{error:?}");
        }
    }
}
