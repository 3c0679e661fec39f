//! The repositories that a credential is for: those of a host, or below a path of it.

use crate::public_address::is_public;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The longest address, in bytes.
const MAX_LENGTH: usize = 255;

/// How git connects to a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// HTTPS.
    Https,
    /// SSH.
    Ssh,
}

impl Transport {
    /// The scheme of its addresses.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
        }
    }

    /// The port of addresses that name none.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Ssh => 22,
        }
    }
}

/// `https://host[:port][/path]` or `ssh://host[:port][/path]`, in one spelling: the host in lower case, without the port
/// of the transport, without a `/` or `.git` at the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepositoryPrefix {
    transport: Transport,
    host: String,
    port: u16,
    path: Vec<String>,
}

/// Why a text is no address of repositories. It continues a sentence after the path, and does not repeat the text, which
/// may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPrefix(&'static str);

const FORM: InvalidPrefix = InvalidPrefix(
    "is not an address of git repositories: use `https://HOST[:PORT][/PATH]` or `ssh://HOST[:PORT][/PATH]`",
);

impl RepositoryPrefix {
    /// How git connects to the repositories.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The host, in lower case; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path without `/` at its ends; empty for every repository of the host.
    pub fn path(&self) -> String {
        self.path.join("/")
    }

    /// How many segments the path has: of two addresses that cover a repository, the one with more is more specific.
    pub fn depth(&self) -> usize {
        self.path.len()
    }

    /// Whether the host is an address that only a private network reaches.
    pub fn is_private_address(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.is_ok_and(|address| !is_public(address))
            || self.host == "localhost"
            || self.host.ends_with(".localhost")
    }

    /// Whether the repository at `path` of this host and port is one of these. The path may end in `.git` and begin with
    /// `/`.
    pub fn covers(&self, transport: Transport, host: &str, port: u16, path: &str) -> bool {
        let same_host = self.host.eq_ignore_ascii_case(host);
        if self.transport != transport || !same_host || self.port != port {
            return false;
        }
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        // A server may resolve these, and lead out of what the address covers.
        if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
            return false;
        }
        let is_repository = segments.len() == self.path.len();
        self.path.iter().enumerate().all(|(index, own)| {
            let is_last = is_repository && index + 1 == self.path.len();
            segments.get(index).is_some_and(|other| {
                own == other || (is_last && other.strip_suffix(".git") == Some(own.as_str()))
            })
        })
    }
}

impl FromStr for RepositoryPrefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        if text.len() > MAX_LENGTH {
            return Err(InvalidPrefix("has more than 255 bytes"));
        }
        let (transport, rest) = [Transport::Https, Transport::Ssh]
            .into_iter()
            .find_map(|one| Some((one, text.strip_prefix(one.scheme())?.strip_prefix("://")?)))
            .ok_or(FORM)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let authority = match (authority.rsplit_once('@'), transport) {
            (None, _) => authority,
            // ssh needs the user, but a repository is the same for each.
            (Some((user, host)), Transport::Ssh) if is_name(user) => host,
            (Some(_), _) => {
                return Err(InvalidPrefix(
                    "must not contain a user or password: give them as the credential",
                ));
            }
        };
        let (host, port) = host_and_port(authority, transport)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut path: Vec<_> =
            path.split('/').filter(|_| !path.is_empty()).map(str::to_owned).collect();
        if !path.iter().all(|segment| is_segment(segment)) {
            return Err(InvalidPrefix(
                "has a path with an empty segment, `.`, `..`, or other characters than letters, digits and `._~+-%`",
            ));
        }
        // `net` and `net.git` are one repository.
        if let Some(name) = path.last_mut()
            && let Some(without) = name.strip_suffix(".git").filter(|without| !without.is_empty())
        {
            *name = without.to_owned();
        }
        Ok(Self { transport, host, port, path })
    }
}

fn host_and_port(authority: &str, transport: Transport) -> Result<(String, u16), InvalidPrefix> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or(FORM)?;
            host.parse::<Ipv6Addr>().map_err(|_| FORM)?;
            let port =
                if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(FORM)?) };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_address = authority.starts_with('[');
    if !is_address && !is_name(host) {
        return Err(FORM);
    }
    let port = match port {
        None => transport.default_port(),
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok().filter(|port| *port != 0).ok_or(FORM)?
        }
        Some(_) => return Err(FORM),
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

fn is_segment(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._~+-%".contains(&b);
    !matches!(text, "" | "." | "..") && !text.starts_with('-') && text.bytes().all(is_plain)
}

impl fmt::Display for RepositoryPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, host, port, path } = self;
        let scheme = transport.scheme();
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]")?;
        } else {
            write!(f, "{scheme}://{host}")?;
        }
        if *port != transport.default_port() {
            write!(f, ":{port}")?;
        }
        path.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

impl TryFrom<String> for RepositoryPrefix {
    type Error = InvalidPrefix;
    fn try_from(text: String) -> Result<Self, InvalidPrefix> {
        text.parse()
    }
}

impl From<RepositoryPrefix> for String {
    fn from(prefix: RepositoryPrefix) -> Self {
        prefix.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_has_one_spelling() {
        for (given, expected) in [
            ("https://github.com", "https://github.com"),
            ("https://GitHub.com:443/", "https://github.com"),
            ("https://github.com/Acme/net.git", "https://github.com/Acme/net"),
            ("https://git.example.com:8443/a/b/", "https://git.example.com:8443/a/b"),
            ("ssh://git@git.example.com:22/a", "ssh://git.example.com/a"),
            ("ssh://[2001:DB8::1]:2222/a", "ssh://[2001:db8::1]:2222/a"),
        ] {
            assert_eq!(given.parse::<RepositoryPrefix>().unwrap().to_string(), expected, "{given}");
        }
        for text in [
            "",
            "github.com",
            "http://github.com",
            "file:///srv",
            "https://",
            "https:///a",
            "https://user:pw@h",
            "https://u@h",
            "ssh://-oProxyCommand=x",
            "ssh://u:p@h",
            "https://h:0",
            "https://h:+1",
            "https://h:99999",
            "https://[::1",
            "https://[x]",
            "https://h/a//b",
            "https://h/a/../b",
            "https://h/-x",
            "https://h/a?x",
            "https://h/a#x",
            "https://*.example.com",
            "https://h/a b",
        ] {
            let fault = text.parse::<RepositoryPrefix>().unwrap_err().to_string();
            assert!(text.len() < 9 || !fault.contains(text), "{text}: {fault}");
        }
    }

    #[test]
    fn an_address_covers_what_is_below_it_by_whole_segments() {
        let covers = |prefix: &str, host: &str, path: &str| {
            let prefix: RepositoryPrefix = prefix.parse().unwrap();
            prefix.covers(prefix.transport(), host, 443, path)
        };
        assert!(covers("https://h", "H", "/a/b.git"));
        assert!(covers("https://h/a", "h", "a/b"));
        assert!(covers("https://h/a/b", "h", "/a/b.git"));
        assert!(covers("https://h/a/b.git", "h", "/a/b"));
        assert!(!covers("https://h/a", "h", "/a.git/b"));
        assert!(!covers("https://h/a", "h", "/a/../b"));
        assert!(!covers("https://h/a", "h", "/ab/c"));
        assert!(!covers("https://h/a/b", "h", "/a"));
        assert!(!covers("https://h/a", "h", "/A"));
        assert!(!covers("https://h", "h.evil.example", "/a"));
        assert!(!covers("https://h:8443", "h", "/a"));
        let ssh: RepositoryPrefix = "ssh://h".parse().unwrap();
        assert!(ssh.covers(Transport::Ssh, "h", 22, "/a"));
        assert!(!ssh.covers(Transport::Https, "h", 22, "/a"), "each transport has its own");
    }

    #[test]
    fn addresses_of_private_networks_are_known() {
        for (text, expected) in [
            ("https://10.0.0.5", true),
            ("https://169.254.169.254/a", true),
            ("https://[::1]:8443", true),
            ("ssh://localhost", true),
            ("https://git.localhost", true),
            ("https://1.1.1.1", false),
            ("https://github.com", false),
        ] {
            assert_eq!(text.parse::<RepositoryPrefix>().unwrap().is_private_address(), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_reads_back_as_it_was_written(text in "(https|ssh)://[a-z0-9.@:\\[\\]-]{1,12}(/[a-z.%-]{0,4}){0,3}") {
            if let Ok(prefix) = text.parse::<RepositoryPrefix>() {
                prop_assert_eq!(prefix.to_string().parse::<RepositoryPrefix>(), Ok(prefix.clone()));
                prop_assert!(!prefix.host().starts_with('-') && !prefix.path().split('/').any(|part| part == ".."));
            }
        }
    }
}
