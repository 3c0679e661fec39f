//! The test whether an IP address is on the public internet.
//!
//! Canyon connects to hosts that its users name. An address that only Canyon's own network reaches (its
//! metadata service, other hosts, itself) must not be among them, in any spelling. The lists are those of the
//! IANA IPv4 and IPv6 Special-Purpose Address Registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// First address and prefix length of all IPv4 networks that are not public.
const SPECIAL_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 3),
];

/// The same within `2000::/3`; no other IPv6 address is public.
const SPECIAL_V6: [([u16; 2], u32); 4] = [
    // Teredo, ORCHID, benchmarking and others.
    ([0x2001, 0], 23),
    // Documentation.
    ([0x2001, 0xdb8], 32),
    // 6to4 contains an IPv4 address, which may be private.
    ([0x2002, 0], 16),
    ([0x3fff, 0], 20),
];

/// Whether `address` is on the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !SPECIAL_V4.iter().any(|(first, length)| {
        let shift = 32 - length;
        bits >> shift == Ipv4Addr::from(*first).to_bits() >> shift
    })
}

/// IPv4 addresses inside IPv6 (`::ffff:0:0/96`, `64:ff9b::/96` of NAT64) are outside of `2000::/3`.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let in_unicast = bits >> 125 == 0b001;
    in_unicast
        && !SPECIAL_V6.iter().any(|([one, two], length)| {
            let first = u128::from(*one) << 112 | u128::from(*two) << 96;
            let shift = 128 - length;
            bits >> shift == first >> shift
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2600::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2001:200::1",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "4000::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }
}
