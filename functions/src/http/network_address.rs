//! The network address of a request.

use crate::app::network_address::NetworkAddress;
use axum::extract::ConnectInfo;
use axum::http::Extensions;
use axum::http::request::Parts;
use std::net::SocketAddr;

/// The address that this request came from; `None` if it came over no network. The functions put it into the
/// extensions of a request, because API Gateway accepted the connection. Elsewhere it is the peer's address.
pub(super) fn of(parts: &Parts) -> Option<NetworkAddress> {
    let given = parts.extensions.get::<NetworkAddress>().copied();
    let address = given.or_else(|| peer(&parts.extensions))?;
    // A reverse proxy on the same machine appends the address of its peer. From any other address the header is not
    // trusted, because the sender controls it.
    let forwarded = || {
        let last = parts.headers.get_all("x-forwarded-for").into_iter().next_back()?;
        let last = last.to_str().ok()?.rsplit(',').next()?;
        last.trim().parse().ok().map(NetworkAddress)
    };
    let is_local = address.0.to_canonical().is_loopback();
    Some(if is_local { forwarded().unwrap_or(address) } else { address })
}

fn peer(extensions: &Extensions) -> Option<NetworkAddress> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| NetworkAddress(peer.0.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use std::net::IpAddr;

    fn address(peer: Option<&str>, forwarded: &[&str]) -> Option<String> {
        let mut request = Request::new(());
        if let Some(peer) = peer {
            let peer: IpAddr = peer.parse().unwrap();
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 443)));
        }
        for header in forwarded {
            request.headers_mut().append("x-forwarded-for", header.parse().unwrap());
        }
        of(&request.into_parts().0).map(|address| address.to_string())
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
            assert_eq!(address(Some(peer), forwarded).as_deref(), Some(expected), "{peer}");
        }
        assert_eq!(address(None, &["198.51.100.1"]), None);
    }
}
