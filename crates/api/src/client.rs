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

use crate::ask::{self, ANSWER_TO, ASK};
use crate::attempt::ANSWER_OF;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// Longer than the longest long poll (25 s) and the network's hiccups, shorter than for ever.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Three times what Canyon answers at most, archives aside. What has more, something else has sent.
const MAX_ANSWER: usize = 16 << 20;

/// Header with the id of the request, which every answer of Canyon's has.
const REQUEST_ID: &str = "x-request-id";

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

    /// The whole answer, if it is a success.
    async fn send(&self, request: RequestBuilder) -> Result<Answer, ClientError> {
        let response = self.ask(request).await?;
        if response.status().is_success() {
            Answer::read(&self.url, response).await
        } else {
            Err(self.refusal(response).await)
        }
    }

    /// Whatever is answered, be it a refusal, unless it is the answer to another request.
    async fn ask(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let word = ask::draw();
        let response = request.header(ASK, &word).send().await;
        let response = response.map_err(|source| ClientError::unreachable(&self.url, source))?;
        match response.headers().get(ANSWER_TO) {
            // A gateway's own answer, which is judged by what it says.
            None => Ok(response),
            Some(answered) if *answered == *word => Ok(response),
            Some(_) => {
                let status = response.status().as_u16();
                Err(ClientError::foreign(&self.url, status, "it answers another request"))
            }
        }
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        self.parsed(&self.send(request).await?)
    }

    fn parsed<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, ClientError> {
        serde_json::from_slice(&answer.body).map_err(|error| answer.foreign(&self.url, error))
    }

    /// A request that Canyon answers with nothing but a status.
    async fn done(&self, request: RequestBuilder) -> Result<(), ClientError> {
        self.acknowledged(&self.send(request).await?)
    }

    /// An answer without a body is Canyon's if it has Canyon's status and names the request.
    fn acknowledged(&self, answer: &Answer) -> Result<(), ClientError> {
        if answer.status != StatusCode::NO_CONTENT {
            return Err(answer.foreign(&self.url, "Canyon answers this with 204"));
        }
        if answer.header(REQUEST_ID).is_none() {
            return Err(answer.foreign(&self.url, "no id of the request"));
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

    /// What an answer that is no success says.
    async fn refusal(&self, response: Response) -> ClientError {
        match Answer::read(&self.url, response).await {
            Ok(answer) => {
                let mut error =
                    ClientError::refused(&self.url, answer.status.as_u16(), &answer.body);
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

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    async fn read(host: &str, response: Response) -> Result<Self, ClientError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = archives::body(host, response, MAX_ANSWER).await?;
        Ok(Self { status, headers, body })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// It is a success, and not one of Canyon's.
    fn foreign(&self, url: &str, reason: impl std::fmt::Display) -> ClientError {
        ClientError::foreign(url, self.status.as_u16(), reason.to_string())
    }
}
