//! Fetches the keys of an issuer (OpenID Connect Discovery 1.0, section 4).
//!
//! A user who may save a policy chooses the host, and could make Canyon request addresses that only
//! Canyon can reach (server-side request forgery). So: only https, no redirects, no proxy. The name
//! is resolved once, all its addresses must be public, and the connection goes to one of these.
//! Time and size are limited, and the reason of a failure is only logged.

use super::key_set::{InvalidKeySet, KeySet};
use super::private_issuers::PrivateIssuers;
use super::strict_json;
use async_trait::async_trait;
use canyon_domain::public_address::is_public;
use canyon_domain::trust_policy::IssuerUrl;
use reqwest::header::CONTENT_ENCODING;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for each of the two documents.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for both.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(4);
/// Largest document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Most addresses of a host that are accepted.
const MAX_ADDRESSES: usize = 32;
/// Issuers that document that their keys are on another host: Google Cloud, "Verify OpenID Connect
/// ID tokens".
const SEPARATE_KEY_HOSTS: [(&str, &str); 1] = [("accounts.google.com", "www.googleapis.com")];

/// Source of keys. Tests have their own.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// Fetches the current keys of `issuer`.
    async fn fetch(&self, issuer: &IssuerUrl) -> Result<KeySet, FetchError>;
}

/// Resolves host names.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of `host`.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Why there are no keys. Only for the log, never for a caller.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name has no address.
    #[error("its host is not found")]
    NotFound(#[source] io::Error),
    /// At least one of its addresses is not public.
    #[error("its host is at an address that is not public")]
    NotPublic,
    /// Its document names another host for its keys.
    #[error("its `jwks_uri` is not an https address of the same host")]
    Elsewhere,
    /// Its document belongs to another issuer.
    #[error("its discovery document is of another issuer, or is not valid")]
    Document,
    /// It took too long, answered with an error, or sent too much.
    #[error("{0}")]
    Failed(String),
    /// The document at its `jwks_uri` is not a usable key set.
    #[error("its key set {0}")]
    Keys(InvalidKeySet),
}

/// Fetches keys over the network.
pub struct Fetcher {
    private: PrivateIssuers,
    resolver: Arc<dyn Resolve>,
}

impl Fetcher {
    /// A fetcher that may also reach the `private` issuers.
    pub fn new(private: PrivateIssuers, resolver: Arc<dyn Resolve>) -> Self {
        Self { private, resolver }
    }

    async fn keys(&self, issuer: &IssuerUrl) -> Result<KeySet, FetchError> {
        let is_private = self.private.includes(issuer);
        let at = issuer.discovery_url().parse().map_err(|_| FetchError::Document)?;
        let document = self.get(&at, is_private).await?;
        let document = strict_json::read(&document).map_err(|_| FetchError::Document)?;
        if document.get("issuer").and_then(Value::as_str) != Some(issuer.as_str()) {
            return Err(FetchError::Document);
        }
        let keys = document.get("jwks_uri").and_then(Value::as_str).map(str::parse::<Url>);
        let Some(Ok(keys)) = keys else { return Err(FetchError::Elsewhere) };
        if !self.may_have_keys_at(issuer, &at, &keys, is_private) {
            return Err(FetchError::Elsewhere);
        }
        let keys = self.get(&keys, is_private).await?;
        KeySet::from_bytes(&keys).map_err(FetchError::Keys)
    }

    fn may_have_keys_at(&self, issuer: &IssuerUrl, at: &Url, keys: &Url, is_private: bool) -> bool {
        let elsewhere = (issuer.host(), keys.host_str().unwrap_or_default());
        keys.scheme() == "https"
            && keys.username().is_empty()
            && keys.password().is_none()
            && (at.origin() == keys.origin()
                || SEPARATE_KEY_HOSTS.contains(&elsewhere) && keys.port().is_none()
                || is_private && self.private.are_at(keys))
    }

    async fn get(&self, url: &Url, is_private: bool) -> Result<Vec<u8>, FetchError> {
        let failed = |error: reqwest::Error| FetchError::Failed(reason(&error));
        let client = self.client(url, is_private).await?.build().map_err(failed)?;
        let mut response = client.get(url.clone()).send().await.map_err(failed)?;
        check(&response)?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > MAX_DOCUMENT_BYTES {
                return Err(FetchError::Failed("it sent more than 64 KiB".to_owned()));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// A client that connects only to the addresses that were checked.
    async fn client(
        &self,
        url: &Url,
        is_private: bool,
    ) -> Result<reqwest::ClientBuilder, FetchError> {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_matches(['[', ']']);
        let addresses = match bare.parse() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(bare).await.map_err(FetchError::NotFound)?,
        };
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            let none = io::Error::new(io::ErrorKind::NotFound, "no address, or too many");
            return Err(FetchError::NotFound(none));
        }
        if !is_private && !addresses.iter().copied().all(is_public) {
            return Err(FetchError::NotPublic);
        }
        let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
        let client = Client::builder()
            .no_proxy()
            .https_only(true)
            .redirect(Policy::none())
            .referer(false)
            .timeout(DOCUMENT_TIMEOUT)
            .pool_max_idle_per_host(0)
            .resolve_to_addrs(host, &addresses);
        let authorities = self.private.authorities();
        Ok(if is_private && !authorities.is_empty() {
            client.tls_certs_only(authorities.iter().cloned())
        } else {
            client
        })
    }
}

#[async_trait]
impl Fetch for Fetcher {
    async fn fetch(&self, issuer: &IssuerUrl) -> Result<KeySet, FetchError> {
        let late = |_| FetchError::Failed("it took too long".to_owned());
        tokio::time::timeout(TOTAL_TIMEOUT, self.keys(issuer)).await.map_err(late)?
    }
}

/// Rejects everything except an uncompressed 200, redirects included. Compressed data could be
/// small here and large after decompression.
fn check(response: &Response) -> Result<(), FetchError> {
    if response.status() != 200 {
        return Err(FetchError::Failed(format!("it answered {}", response.status().as_u16())));
    }
    let coding = response.headers().get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| coding != "identity") {
        return Err(FetchError::Failed("it sent compressed data".to_owned()));
    }
    Ok(())
}

/// The innermost cause: the outer ones only state that the call failed.
fn reason(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
