//! Requests of Canyon to a service that an administrator names, signed by Canyon's issuer.
//!
//! The service verifies the token in `Authorization` by Canyon's public keys, as it does tokens of any OIDC issuer, and compares the
//! claim [`BODY_CLAIM`] with the body. So neither side stores a secret.
//!
//! Who names the address could make Canyon send requests to what only Canyon can reach (server-side request forgery). So: only
//! https, no redirects, no proxy. The name is resolved once, all its addresses must be public, and the connection goes to one of
//! these. The answer's body is not read.

use crate::assertion::AssertionRequest;
use crate::federation::reason;
use crate::issuer::Issuer;
use aws_lc_rs::digest::{SHA256, digest};
use canyon_domain::plan_check::check_url;
use canyon_domain::public_address::is_public;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The claim with the SHA-256 of the body, in lower case hexadecimal digits.
pub const BODY_CLAIM: &str = "body_sha256";
/// Limit of one request, with the resolution of the name.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Lifetime of a token: the service verifies it at once.
const LIFETIME: Duration = Duration::from_mins(5);
/// Most addresses of a host that are accepted.
const MAX_ADDRESSES: usize = 32;

/// Sends signed requests.
pub struct SignedRequests {
    issuer: Arc<Issuer>,
    allows_loopback: bool,
}

impl SignedRequests {
    /// Signs with `issuer`. `allows_loopback`: whether services of Canyon's own machine may be reached, also without https.
    pub fn new(issuer: Arc<Issuer>, allows_loopback: bool) -> Self {
        Self { issuer, allows_loopback }
    }

    /// Posts JSON to `url`. The token has the audience `url`.
    ///
    /// # Errors
    ///
    /// Why the service has not accepted the request, for people: it continues a list of reasons, and has no secret.
    pub async fn post(&self, url: &str, subject: String, body: Vec<u8>) -> Result<(), String> {
        let late = |_| format!("it did not answer within {} s", TIMEOUT.as_secs());
        tokio::time::timeout(TIMEOUT, self.send(url, subject, body)).await.map_err(late)?
    }

    async fn send(&self, url: &str, subject: String, body: Vec<u8>) -> Result<(), String> {
        check_url(url, self.allows_loopback).map_err(|fault| format!("its address {fault}"))?;
        let at: Url = url.parse().map_err(|_| "its address is no URL".to_owned())?;
        let client = self.client(&at).await?;
        let request = AssertionRequest {
            subject,
            audience: url.to_owned(),
            claims: Map::from_iter([(BODY_CLAIM.to_owned(), Value::from(sha256(&body)))]),
            lifetime: LIFETIME,
        };
        let token = self.issuer.assertion(&request).await.map_err(|error| {
            tracing::warn!(error = %canyon_domain::causes::Causes(&error), "cannot sign a request");
            "Canyon's issuer cannot sign; its log has the cause".to_owned()
        })?;
        let sent = client
            .post(at)
            .bearer_auth(token.expose_secret())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response =
            sent.send().await.map_err(|error| format!("no answer: {}", reason(&error)))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {}", status.as_u16())) }
    }

    /// A client that connects only to the addresses that were checked.
    async fn client(&self, url: &Url) -> Result<Client, String> {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_matches(['[', ']']);
        let addresses: Vec<IpAddr> = if let Ok(address) = bare.parse() {
            vec![address]
        } else {
            let found = tokio::net::lookup_host((bare, 0)).await;
            let found = found.map_err(|error| format!("its host is not found: {error}"))?;
            found.map(|address| address.ip()).collect()
        };
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            return Err("its host has no address, or too many".to_owned());
        }
        let is_here = self.allows_loopback && addresses.iter().all(IpAddr::is_loopback);
        if !is_here && (url.scheme() != "https" || !addresses.iter().copied().all(is_public)) {
            return Err("its host is at an address that is not public".to_owned());
        }
        let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
        let client = Client::builder()
            .no_proxy()
            .https_only(!is_here)
            .redirect(Policy::none())
            .referer(false)
            .timeout(TIMEOUT)
            .pool_max_idle_per_host(0)
            .resolve_to_addrs(host, &addresses);
        client.build().map_err(|error| format!("Canyon has no HTTP client: {}", reason(&error)))
    }
}

fn sha256(body: &[u8]) -> String {
    digest(&SHA256, body).as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
