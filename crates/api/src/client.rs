//! A typed client, for the command line and for runners.

mod agents;
mod archives;
mod deployments;
mod error;
mod inventory;
mod organizations;
mod runner_checks;
mod runs;

pub use deployments::LogPart;
pub use error::ClientError;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// Longer than the longest long poll (25 s) and the network's hiccups, shorter than for ever.
const TIMEOUT: Duration = Duration::from_mins(1);

/// What a path segment may hold as it is (RFC 3986, unreserved).
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// A caller of one Canyon, as one principal.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    org: String,
    token: SecretString,
}

impl Client {
    /// A caller of the Canyon at `url` for the organization `org`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Setup`] when the machine has no usable TLS set-up.
    pub fn new(url: &str, org: &str, token: SecretString) -> Result<Self, ClientError> {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(Duration::from_secs(10))
            .user_agent(concat!("canyon/", env!("CARGO_PKG_VERSION")))
            // A redirect could carry the token to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), org: org.to_owned(), token })
    }

    /// The same caller with another token.
    #[must_use]
    pub fn with_token(&self, token: SecretString) -> Self {
        Self { token, ..self.clone() }
    }

    /// The address of the Canyon.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The organization.
    pub fn org(&self) -> &str {
        &self.org
    }

    /// A request to `/orgs/{org}/...`; each segment is encoded.
    fn request(&self, method: Method, segments: &[&str]) -> RequestBuilder {
        let mut url = format!("{}/orgs/{}", self.url, utf8_percent_encode(&self.org, SEGMENT));
        for segment in segments {
            url.push('/');
            url.extend(utf8_percent_encode(segment, SEGMENT));
        }
        self.http.request(method, url).bearer_auth(self.token.expose_secret())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = self.ask(request).await?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }

    /// Whatever is answered, be it a refusal.
    async fn ask(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        request.send().await.map_err(|source| ClientError::unreachable(&self.url, source))
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        response.json().await.map_err(|source| ClientError::unreadable(&self.url, source))
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(self.request(method, segments).json(body)).await
    }
}

async fn refusal(response: Response) -> ClientError {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap_or_default();
    ClientError::refused(status, &text)
}
