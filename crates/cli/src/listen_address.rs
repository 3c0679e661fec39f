//! The address on which `canyon local` listens.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The address of `--listen`. Without a host, as in `:8080`, it is loopback, and not every network as for some other programs:
/// a server that a whole network reaches is always asked for by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

/// Why a text is no such address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write it like 127.0.0.1:8080, [::1]:8080, or :8080, which means 127.0.0.1:8080; 0.0.0.0:8080 is reached from other machines"
)]
pub(crate) struct InvalidListenAddress;

impl FromStr for ListenAddress {
    type Err = InvalidListenAddress;

    fn from_str(text: &str) -> Result<Self, InvalidListenAddress> {
        let port = |port: &str| {
            let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
            port.parse().ok().filter(|_| is_number)
        };
        let on_loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let without_host = ["localhost:", ":"].iter().find_map(|host| text.strip_prefix(host));
        let address = match without_host {
            Some(text) => port(text).map(on_loopback),
            None => text.parse().ok(),
        };
        address.map(Self).ok_or(InvalidListenAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_host_is_loopback() {
        for (text, expected) in [
            (":8080", "127.0.0.1:8080"),
            (":0", "127.0.0.1:0"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("[::]:8080", "[::]:8080"),
        ] {
            let address = text.parse::<ListenAddress>().unwrap();
            assert_eq!(address.0, expected.parse().unwrap(), "{text}");
        }
        for text in ["", ":", "8080", ":+80", ":65536", "::8080", "example.com:80", "127.0.0.1"] {
            assert_eq!(text.parse::<ListenAddress>(), Err(InvalidListenAddress), "{text}");
        }
    }
}
