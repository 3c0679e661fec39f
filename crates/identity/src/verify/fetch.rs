//! The keys of an issuer, fetched from it (OpenID Connect Discovery 1.0, section 4).
//!
//! Whoever may save a policy chooses the host, and so could have Canyon look at what only Canyon
//! reaches. So: https only, no redirects, no proxy; the name is looked up once, every address that it
//! has must be public, and the connection goes to one of these. What comes is bounded in time and
//! size, and what went wrong is for the log alone.

use super::key_set::{KeySet, UnfitKeys};
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

/// For each of the two documents.
const TRY: Duration = Duration::from_secs(3);
/// For both.
const ALL: Duration = Duration::from_secs(4);
/// The largest document, in bytes.
const MOST: usize = 64 * 1024;
/// The most addresses of a host that are looked at.
const MAX_ADDRESSES: usize = 32;
/// Issuers that have their keys on another host, by their own documentation: Google Cloud, "Verify
/// OpenID Connect ID tokens".
const KEYS_ELSEWHERE: [(&str, &str); 1] = [("accounts.google.com", "www.googleapis.com")];

/// Where keys come from; tests have another.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// The keys of `issuer` now.
    async fn fetch(&self, issuer: &IssuerUrl) -> Result<KeySet, FetchError>;
}

/// Looks names up.
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

/// Why there are no keys. For the log, never for a caller.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name has no address.
    #[error("its host is not found")]
    NotFound(#[source] io::Error),
    /// At least one of its addresses is of an inner network.
    #[error("its host is at an address that is not public")]
    NotPublic,
    /// The keys are said to be at another host.
    #[error("its `jwks_uri` is no https address of the same host")]
    Elsewhere,
    /// It says that it is somebody else.
    #[error("its discovery document is of another issuer, or none")]
    Document,
    /// It took too long, refused, or sent too much.
    #[error("{0}")]
    Failed(String),
    /// What it says its keys are is none.
    #[error("its key set {0}")]
    Keys(UnfitKeys),
}

/// Fetches keys over the network.
pub struct Fetcher {
    private: PrivateIssuers,
    resolver: Arc<dyn Resolve>,
}

impl Fetcher {
    /// A fetcher that also asks the `private` issuers.
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
                || KEYS_ELSEWHERE.contains(&elsewhere) && keys.port().is_none()
                || is_private && self.private.are_at(keys))
    }

    async fn get(&self, url: &Url, is_private: bool) -> Result<Vec<u8>, FetchError> {
        let failed = |error: reqwest::Error| FetchError::Failed(reason(&error));
        let client = self.client(url, is_private).await?.build().map_err(failed)?;
        let mut response = client.get(url.clone()).send().await.map_err(failed)?;
        check(&response)?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > MOST {
                return Err(FetchError::Failed("it sent more than 64 KiB".to_owned()));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// A client that connects to the addresses that were checked, and to no other.
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
            .timeout(TRY)
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
        tokio::time::timeout(ALL, self.keys(issuer)).await.map_err(late)?
    }
}

/// A redirect is an answer like any other that is not 200. What is compressed could be small here and
/// large after.
fn check(response: &Response) -> Result<(), FetchError> {
    if response.status() != 200 {
        return Err(FetchError::Failed(format!("it answered {}", response.status().as_u16())));
    }
    let coding = response.headers().get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| coding != "identity") {
        return Err(FetchError::Failed("it sent something compressed".to_owned()));
    }
    Ok(())
}

/// The innermost cause: the outer ones say no more than that the call failed.
fn reason(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
