//! From which network address a request came, for limits on what anyone may ask.

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use axum::http::request::Parts;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address from which a request came, as the one who answered its connection knows it. The functions put it into
/// the extensions of a request, where API Gateway has answered the connection; elsewhere it is the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(pub IpAddr);

impl Source {
    /// Of this request; `None` if it came over no network.
    pub(crate) fn of(parts: &Parts) -> Option<Self> {
        let told = parts.extensions.get::<Self>().copied();
        let source = told.or_else(|| peer(&parts.extensions))?;
        // A reverse proxy on the same machine appends the address of its own peer. Others may write what they like there,
        // so it counts from nowhere else.
        let forwarded = || {
            let last = parts.headers.get_all("x-forwarded-for").into_iter().next_back()?;
            let last = last.to_str().ok()?.rsplit(',').next()?;
            last.trim().parse().ok().map(Self)
        };
        let is_here = source.0.to_canonical().is_loopback();
        Some(if is_here { forwarded().unwrap_or(source) } else { source })
    }
}

fn peer(extensions: &Extensions) -> Option<Source> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| Source(peer.0.ip()))
}

/// What one holder of addresses has at least: an IPv4 address, or a /64 of IPv6 (RFC 6177).
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.to_canonical() {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
                write!(f, "{network}/64")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn shown(peer: Option<&str>, forwarded: &[&str]) -> Option<String> {
        let mut request = Request::new(());
        if let Some(peer) = peer {
            let peer: IpAddr = peer.parse().unwrap();
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 443)));
        }
        for header in forwarded {
            request.headers_mut().append("x-forwarded-for", header.parse().unwrap());
        }
        Source::of(&request.into_parts().0).map(|source| source.to_string())
    }

    #[test]
    fn a_source_is_the_peer_and_behind_a_proxy_of_this_machine_the_peer_of_that() {
        for (peer, forwarded, expected) in [
            ("192.0.2.7", &[][..], "192.0.2.7"),
            ("192.0.2.7", &["198.51.100.1"], "192.0.2.7"),
            ("::ffff:192.0.2.7", &[], "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", &[], "2001:db8:1:2::/64"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["10.0.0.1, 198.51.100.1"], "198.51.100.1"),
            ("::1", &["10.0.0.1", "198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["no address"], "127.0.0.1"),
        ] {
            assert_eq!(shown(Some(peer), forwarded).as_deref(), Some(expected), "{peer}");
        }
        assert_eq!(shown(None, &["198.51.100.1"]), None);
    }
}
