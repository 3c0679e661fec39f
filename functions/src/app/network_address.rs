//! The network address of a request, for rate limits of callers without proof.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The address of the sender of a request, or of the last trusted proxy before Canyon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkAddress(pub(crate) IpAddr);

/// The smallest block of one subscriber: an IPv4 address, or a /64 of IPv6 (RFC 6177).
impl fmt::Display for NetworkAddress {
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
