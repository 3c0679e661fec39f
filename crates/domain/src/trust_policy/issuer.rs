//! The URL of an issuer, which is also its name: the `iss` of its tokens.
//!
//! It is compared byte by byte (OpenID Connect Discovery 1.0, section 4.3), and Canyon may fetch from it. So
//! each URL has one accepted spelling, which all parsers read the same.

use crate::public_address::is_public;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum length, in bytes.
const MAX_LENGTH: usize = 255;

/// The URL of an issuer, such as `https://token.example.com/tenant`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IssuerUrl(String);

/// Why a URL is refused. The message continues after the name of the field and does not repeat the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidIssuer(&'static str);

impl IssuerUrl {
    /// Validates a URL. Its host may be an address that is not public.
    ///
    /// # Errors
    ///
    /// [`InvalidIssuer`] if its form is not accepted.
    pub fn new(text: &str) -> Result<Self, InvalidIssuer> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL of its discovery document: a `/` at its end is removed before the rest is appended (OpenID
    /// Connect Discovery 1.0, section 4).
    pub fn discovery_url(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.0.trim_end_matches('/'))
    }

    /// The name or address of its host, without brackets and port.
    pub fn host(&self) -> &str {
        split(&self.0).map_or("", |(host, _, _)| host)
    }

    /// Whether its host is an address that is not public.
    pub fn is_private_address(&self) -> bool {
        let address = self.host().parse::<IpAddr>();
        address.is_ok_and(|address| !is_public(address)) || self.host() == "localhost"
    }
}

impl fmt::Display for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Host, port and path, if it has the form of an accepted URL.
fn split(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let rest = text.strip_prefix("https://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if let Some(inner) = authority.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
        return Some((host, port, path));
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port), path)),
        None => Some((authority, None, path)),
    }
}

fn check(text: &str) -> Result<(), InvalidIssuer> {
    let unfit = |reason| Err(InvalidIssuer(reason));
    if text.len() > MAX_LENGTH {
        return unfit("must have at most 255 characters");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return unfit("must have only printable ASCII characters, and no spaces");
    }
    if !text.starts_with("https://") {
        return unfit("must begin with `https://`: other connections can be tampered with");
    }
    if text.contains(['?', '#', '@', '\\', '%']) {
        return unfit("must have no user, query, fragment, `\\` or `%`");
    }
    let Some((host, port, path)) = split(text) else {
        return unfit("must be an address such as `https://issuer.example.com`");
    };
    if !port.is_none_or(is_port) {
        return unfit("must have a port from 1 to 65535, or none");
    }
    if !is_host(host, text.starts_with("https://[")) {
        return unfit(
            "must name a host in lower case letters, digits, hyphens and dots, or an address written \
             in the usual way (four decimal numbers, or IPv6 in brackets)",
        );
    }
    if !is_path(path) {
        return unfit(
            "must have a path of letters, digits, `-._~` and single `/`, without `.` and `..`",
        );
    }
    Ok(())
}

fn is_port(text: &str) -> bool {
    !text.starts_with(['0', '+']) && text.parse::<u16>().is_ok()
}

/// Refuses hosts that some parsers read as numbers (`2130706433`, `0x7f.1`), except the one form that all of
/// them read the same.
fn is_host(host: &str, in_brackets: bool) -> bool {
    if in_brackets {
        return host.parse::<Ipv6Addr>().is_ok_and(|address| address.to_string() == host);
    }
    let last = host.rsplit('.').next().unwrap_or(host);
    if last.starts_with(|first: char| first.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

fn is_path(path: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().all(good)
        && !path.contains("//")
        && path.split('/').all(|part| part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_an_https_url_that_all_parsers_read_the_same() {
        for text in [
            "https://token.actions.example.com",
            "https://login.example.com/1f2e/v2.0",
            "https://tenant.example.com/",
            "https://issuer.example.com:8443/a_b".trim_end_matches("_b"),
            "https://kubernetes.default.svc.cluster.local",
            "https://8.8.8.8",
            "https://[2600::1]:6443",
            "https://127.0.0.1:24443",
            "https://localhost:1",
        ] {
            assert_eq!(IssuerUrl::new(text).map(|it| it.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "issuer.example.com",
            "http://issuer.example.com",
            "HTTPS://issuer.example.com",
            "https://",
            "https:///path",
            "https://u@issuer.example.com",
            "https://u:p@issuer.example.com",
            "https://issuer.example.com?x",
            "https://a.com#x",
            "https://a.com/?",
            "https://a.com\\@b.com",
            "https://a.com/%2e%2e/x",
            "https://a.com//x",
            "https://a.com/../x",
            "https://a.com/./x",
            "https://A.com",
            "https://a.com.",
            "https://.a.com",
            "https://a..com",
            "https://-a.com",
            "https://a-.com",
            "https://a_b.com",
            "https://a.com:",
            "https://a.com:0",
            "https://a.com:65536",
            "https://a.com:+1",
            "https://a.com:080",
            "https://a.com:1:2",
            "https://2130706433",
            "https://0x7f.1",
            "https://0x7f000001",
            "https://127.1",
            "https://0177.0.0.1",
            "https://127.0.0.1.",
            "https://1.2.3.4.5",
            "https://[::1",
            "https://[::1]x",
            "https://[0:0::1]",
            "https://[fe80::1%25eth0]",
            "https://::1",
            "https://a.com\n",
            " https://a.com",
            "https://ex\u{e4}mple.com",
            "https://a\u{3002}com",
            "https://a.com /x",
            "https://a.com/*",
        ] {
            assert!(IssuerUrl::new(text).is_err(), "{text:?}");
        }
        assert!(IssuerUrl::new(&format!("https://a.com/{}", "x".repeat(255))).is_err());
    }

    #[test]
    fn an_address_of_a_private_network_is_recognized() {
        for text in [
            "https://127.0.0.1",
            "https://169.254.169.254/latest",
            "https://10.0.0.1:6443",
            "https://[::1]",
            "https://[::ffff:127.0.0.1]",
            "https://[fd00::1]:1",
            "https://localhost",
        ] {
            assert!(IssuerUrl::new(text).unwrap().is_private_address(), "{text}");
        }
        for text in
            ["https://8.8.8.8", "https://[2600::1]", "https://a.com", "https://localhost.com"]
        {
            assert!(!IssuerUrl::new(text).unwrap().is_private_address(), "{text}");
        }
    }

    #[test]
    fn the_discovery_document_is_below_the_issuer() {
        for (issuer, url) in [
            ("https://a.com", "https://a.com/.well-known/openid-configuration"),
            ("https://a.com/", "https://a.com/.well-known/openid-configuration"),
            ("https://a.com/t", "https://a.com/t/.well-known/openid-configuration"),
        ] {
            assert_eq!(IssuerUrl::new(issuer).unwrap().discovery_url(), url);
        }
    }
}
