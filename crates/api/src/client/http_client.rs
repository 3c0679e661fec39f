//! The HTTP client of the command line and of runners.

use super::ClientError;
use std::env;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longer than the longest long poll (25 s) with some network delay.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A client of the Canyon at an address.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    pub(super) to_canyon: reqwest::Client,
    /// If `to_canyon` has no root certificates, so that no TLS connection succeeds: a client that has them, once one is needed.
    with_certificates: Option<Arc<OnceLock<reqwest::Client>>>,
}

impl HttpClient {
    /// Reads the machine's root certificates only if the way to `url` needs them: that takes milliseconds, a large part of the
    /// time of a short command or job.
    pub(super) fn new(url: &str) -> Result<Self, ClientError> {
        let is_plain = is_plain(url, &variable);
        Ok(Self { to_canyon: build(is_plain)?, with_certificates: is_plain.then(Arc::default) })
    }

    /// `http`, which verifies certificates.
    pub(super) fn over(http: reqwest::Client) -> Self {
        Self { to_canyon: http, with_certificates: None }
    }

    /// A client for the object store at `url`, which may need certificates where Canyon needs none.
    pub(super) fn to_store(&self, url: &str) -> Result<reqwest::Client, ClientError> {
        let Some(known) = self.with_certificates.as_ref().filter(|_| !is_plain(url, &variable))
        else {
            return Ok(self.to_canyon.clone());
        };
        if let Some(client) = known.get() {
            return Ok(client.clone());
        }
        let made = build(false)?;
        Ok(known.get_or_init(|| made).clone())
    }
}

fn build(is_plain: bool) -> Result<reqwest::Client, ClientError> {
    let mut builder = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("canyon/", env!("CARGO_PKG_VERSION")))
        // A redirect could carry the token to another host.
        .redirect(reqwest::redirect::Policy::none());
    if is_plain {
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(ClientError::Setup)
}

/// Whether neither the server at `url` nor a proxy before it has a certificate.
fn is_plain(url: &str, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let has_certificate = |url: &str| !url.starts_with("http://");
    let is_proxied =
        || PROXIES.iter().filter_map(|name| variable(name)).any(|at| has_certificate(&at));
    !has_certificate(url) && !is_proxied()
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_needed_for_https_at_the_server_or_at_a_proxy_before_it() {
        let none = |_: &str| None;
        assert!(is_plain("http://127.0.0.1:8080", &none));
        assert!(!is_plain("https://canyon.example.com", &none));
        for (name, address, wanted) in [
            ("http_proxy", "http://proxy:3128", true),
            ("HTTP_PROXY", "https://proxy:3128", false),
            ("all_proxy", "proxy:3128", false),
            ("HTTPS_PROXY", "https://proxy:3128", true),
        ] {
            let variable = |of: &str| (of == name).then(|| address.to_owned());
            assert_eq!(
                is_plain("http://canyon.example.com", &variable),
                wanted,
                "{name}={address}"
            );
        }
    }
}
