//! Whether an address can be reachable from here.

use std::net::IpAddr;
use std::time::Duration;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// From where an API server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// From everywhere.
    Public,
    /// Only from some network.
    Private,
    /// Its name cannot be resolved here.
    UnknownName,
}

/// From where `server`, an https URL, can be reached.
pub(super) async fn of(server: &str) -> Reach {
    let Ok(url) = server.parse::<http::Uri>() else { return Reach::UnknownName };
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    if let Ok(address) = host.parse::<IpAddr>() {
        return of_addresses(&[address]);
    }
    let port = url.port_u16().unwrap_or(443);
    match tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(found)) => of_addresses(&found.map(|socket| socket.ip()).collect::<Vec<_>>()),
        // A resolver that does not answer may do so later; the name counts as valid.
        Ok(Err(error)) if error.to_string().contains("emporary failure") => Reach::Public,
        Ok(Err(_)) => Reach::UnknownName,
        Err(_) => Reach::Public,
    }
}

fn of_addresses(addresses: &[IpAddr]) -> Reach {
    if addresses.is_empty() {
        Reach::UnknownName
    } else if addresses.iter().all(|address| is_private(*address)) {
        Reach::Private
    } else {
        Reach::Public
    }
}

/// RFC 1918, RFC 6598 (carriers, also used in clouds), RFC 4193, loopback and link-local.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_private_address_is_recognized() {
        for private in ["10.1.2.3", "172.20.0.1", "192.168.1.1:6443", "100.64.0.1", "[fd00::1]"] {
            assert_eq!(of(&format!("https://{private}")).await, Reach::Private, "{private}");
        }
        for public in ["34.90.1.2", "[2001:4860::1]:443", "100.128.0.1"] {
            assert_eq!(of(&format!("https://{public}")).await, Reach::Public, "{public}");
        }
        assert_eq!(of("https://nowhere.invalid").await, Reach::UnknownName);
    }
}
