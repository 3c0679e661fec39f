//! A typed client, for the command line, agents and runners.

mod agents;
mod archives;
mod deployments;
mod drift;
mod error;
mod git_credentials;
mod health;
mod http_client;
mod inventory;
mod organizations;
mod retry_after;
mod runner_checks;
mod runs;
mod server_clock;
mod sign_in;
mod token_exchange;
mod usage;
mod variables;

pub use deployments::LogPart;
pub use error::ClientError;
pub use retry_after::MAX_RETRY_AFTER;
pub use server_clock::ServerClock;
pub use token_exchange::SignInAs;

use crate::attempt::ANSWER_OF;
use crate::nonce::{self, ANSWER_NONCE_HEADER, NONCE_HEADER};
use bytes::Bytes;
use http_client::HttpClient;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::{Arc, PoisonError, RwLock};

/// Three times Canyon's largest answer without archives. Canyon sends no larger answer.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Header with the id of the request, which every answer of Canyon has.
const REQUEST_ID: &str = "x-request-id";

/// Characters that need no encoding in a path segment (RFC 3986, unreserved).
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// A client of one Canyon, as one principal.
#[derive(Clone, Debug)]
pub struct Client {
    http: HttpClient,
    url: String,
    org: String,
    /// Clones of a client share it, so that all of them go on after a renewal.
    token: Arc<RwLock<SecretString>>,
    clock: Arc<ServerClock>,
    /// Whether every answer must name its request; otherwise an answer without a name is accepted.
    requires_nonce: bool,
}

impl Client {
    /// A client of the Canyon at `url` for the organization `org`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Setup`] if the machine has no usable TLS configuration.
    pub fn new(url: &str, org: &str, token: SecretString) -> Result<Self, ClientError> {
        let token = Arc::new(RwLock::new(token));
        Ok(Self { token, requires_nonce: false, ..Self::of(HttpClient::new(url)?, url, org) })
    }

    /// A client over `http`, without a token. It accepts only answers that name its request: a proxy must let the nonce's
    /// headers pass.
    pub fn over(http: reqwest::Client, url: &str, org: &str) -> Self {
        Self::of(HttpClient::over(http), url, org)
    }

    fn of(http: HttpClient, url: &str, org: &str) -> Self {
        let (url, org) = (url.trim_end_matches('/').to_owned(), org.to_owned());
        let (token, clock) = (Arc::default(), Arc::default());
        Self { http, url, org, token, clock, requires_nonce: true }
    }

    /// The same client with another token.
    #[must_use]
    pub fn with_token(&self, token: SecretString) -> Self {
        Self { token: Arc::new(RwLock::new(token)), ..self.clone() }
    }

    /// Lets this client and its clones use another token of the same principal from the next request on.
    pub fn renew_token(&self, token: SecretString) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// The address of the Canyon.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The organization.
    pub fn org(&self) -> &str {
        &self.org
    }

    /// Canyon's clock, as the answers show it.
    pub fn clock(&self) -> &ServerClock {
        &self.clock
    }

    /// A request to `/orgs/{org}/...`; each segment is encoded.
    fn request(&self, method: Method, segments: &[&str]) -> RequestBuilder {
        self.with_bearer(self.request_without_token(method, segments))
    }

    fn with_bearer(&self, request: RequestBuilder) -> RequestBuilder {
        let token = self.token.read().unwrap_or_else(PoisonError::into_inner);
        request.bearer_auth(token.expose_secret())
    }

    fn request_without_token(&self, method: Method, segments: &[&str]) -> RequestBuilder {
        let mut url = format!("{}/orgs/{}", self.url, utf8_percent_encode(&self.org, SEGMENT));
        for segment in segments {
            url.push('/');
            url.extend(utf8_percent_encode(segment, SEGMENT));
        }
        self.http.to_canyon.request(method, url)
    }

    /// Sends a request and returns the whole answer if it is a success.
    async fn send(&self, request: RequestBuilder) -> Result<Answer, ClientError> {
        let response = self.send_with_nonce(request).await?;
        if response.status().is_success() {
            self.answer(response).await
        } else {
            Err(self.refusal(response).await)
        }
    }

    /// Sends a request and returns the answer, also a refusal, unless it answers another request.
    async fn send_with_nonce(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let nonce = nonce::generate();
        let response = request.header(NONCE_HEADER, &nonce).send().await;
        let response = response.map_err(|source| ClientError::unreachable(&self.url, source))?;
        let reason = match response.headers().get(ANSWER_NONCE_HEADER) {
            // Perhaps a gateway's own answer, which the caller classifies by its content.
            None if !self.requires_nonce => return Ok(response),
            Some(answered) if *answered == *nonce => return Ok(response),
            Some(_) => "it answers another request".to_owned(),
            // An empty JSON object would be a valid answer to most requests, and other servers may send one.
            None if response.status().is_success() => format!(
                "it does not name the request: a proxy must let the headers `{NONCE_HEADER}` and \
                 `{ANSWER_NONCE_HEADER}` pass"
            ),
            None => "it does not name the request".to_owned(),
        };
        let status = response.status().as_u16();
        let pause = retry_after::pause(response.headers());
        Err(ClientError::not_canyon(&self.url, status, reason).with_retry_after(pause))
    }

    /// Reads an answer completely.
    async fn answer(&self, response: Response) -> Result<Answer, ClientError> {
        let (status, headers) = (response.status(), response.headers().clone());
        self.clock.set_by(&headers);
        let body = archives::body(&self.url, response, MAX_ANSWER_BYTES).await?;
        Ok(Answer { status, headers, body })
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        self.parsed(&self.send(request).await?)
    }

    fn parsed<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, ClientError> {
        serde_json::from_slice(&answer.body).map_err(|error| answer.foreign(&self.url, error))
    }

    /// Sends a request to which Canyon answers with a status only.
    async fn send_for_status(&self, request: RequestBuilder) -> Result<(), ClientError> {
        self.check_acknowledged(&self.send(request).await?)
    }

    /// Checks an answer without a body: it is Canyon's if it has Canyon's status and a request id.
    fn check_acknowledged(&self, answer: &Answer) -> Result<(), ClientError> {
        if answer.status != StatusCode::NO_CONTENT {
            return Err(answer.foreign(&self.url, "Canyon answers this with 204"));
        }
        if answer.header(REQUEST_ID).is_none() {
            return Err(answer.foreign(&self.url, "it has no request id"));
        }
        Ok(())
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(self.request(method, segments).json(body)).await
    }

    /// Converts an answer that is not a success to an error.
    async fn refusal(&self, response: Response) -> ClientError {
        match self.answer(response).await {
            Ok(answer) => {
                let status = answer.status.as_u16();
                let mut error = ClientError::refused(&self.url, status, &answer.body)
                    .with_retry_after(retry_after::pause(&answer.headers));
                if let (ClientError::Refused { body, .. }, Some(of)) =
                    (&mut error, answer.header(ANSWER_OF))
                {
                    body.details.insert("of".to_owned(), of.into());
                }
                error
            }
            Err(error) => error,
        }
    }
}

/// A completely read answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The error for a success that is not an answer of Canyon.
    fn foreign(&self, url: &str, reason: impl std::fmt::Display) -> ClientError {
        ClientError::not_canyon(url, self.status.as_u16(), reason.to_string())
    }
}
