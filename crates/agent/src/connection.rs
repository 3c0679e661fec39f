//! The connection to Canyon's API. Each request carries the agent's proof of identity.

use crate::answer::{AnswerError, read, set_clock, unreachable};
use crate::retry_after;
use crate::server_clock::ServerClock;
use crate::settings::authorities::Authorities;
use crate::sign_in::{SignIn, SignInError};
use canyon_api::agent::{
    OpenSession, Poll, Reports, ReportsTaken, SessionOpened, TakeJobs, TakenJobs, Work,
};
use canyon_api::error::{ErrorBody, INCOMPLETE, NO_TOKEN};
use canyon_api::nonce::{self, ANSWER_NONCE_HEADER, NONCE_HEADER};
use canyon_domain::causes::Causes;
use canyon_domain::ids::{AgentId, OrgId};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, Method, Response};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// How long a request may take, in addition to the time that a poll waits.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// If the clock was off by more than this, Canyon may have refused a token because of it.
const WRONG_CLOCK: Duration = Duration::from_secs(5);

/// Why a request failed. Except for a refusal, its effect is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// There was no answer, or it is not Canyon's.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// Canyon refused the request.
    #[error("{message}")]
    Refused {
        /// The status code.
        status: u16,
        /// The machine-readable code, or an empty text.
        code: String,
        /// Canyon's message.
        message: String,
        /// The pause that Canyon asks for before the next request.
        pause: Option<Duration>,
        /// Whether Canyon supports processes that stand by for the one that superseded them.
        standby: bool,
    },
    /// A gateway is busy or under maintenance, and asked for a pause.
    #[error("a gateway at {url} answered with status {status}, not Canyon")]
    Gateway {
        /// The address.
        url: String,
        /// The status code. It shows nothing about Canyon's own answer.
        status: u16,
        /// The pause before the next request.
        pause: Duration,
    },
    /// The agent has no proof of identity at the moment.
    #[error("cannot sign in: {0}")]
    SignIn(#[from] SignInError),
}

impl ConnectionError {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Answer(_) | Self::Gateway { .. } | Self::SignIn(_) => None,
        }
    }

    fn has_code(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == wanted)
    }

    /// Whether a newer session of this agent has superseded this one.
    pub fn is_superseded(&self) -> bool {
        self.status() == Some(409) && self.has_code("session_superseded")
    }

    /// Whether a newer session has superseded this one, and this process may wait for its end.
    pub fn may_stand_by(&self) -> bool {
        self.is_superseded() && matches!(self, Self::Refused { standby: true, .. })
    }

    /// Whether no administrator has adopted this agent yet.
    pub fn is_pending(&self) -> bool {
        self.status() == Some(409) && self.has_code("pending")
    }

    /// Whether an administrator has rejected this agent, or another agent has its name. A retry does not help.
    pub fn is_rejection(&self) -> bool {
        self.has_code("rejected") || self.has_code("another_agent")
    }

    /// Whether Canyon does not know the agent, or not with this proof. If an administrator has forgotten the agent, it
    /// enrolls again.
    pub fn is_unknown_agent(&self) -> bool {
        matches!(self.status(), Some(401 | 404)) && !self.blames_the_network()
    }

    /// Whether Canyon would answer a retry in the same way, because the request itself is wrong.
    pub fn is_permanent(&self) -> bool {
        matches!(self.status(), Some(400 | 403 | 409 | 413 | 422))
            && !self.has_code("contended")
            && !self.blames_the_network()
    }

    /// Whether the body is wrong, whatever the agent and the session.
    pub fn is_about_the_body(&self) -> bool {
        matches!(self.status(), Some(400 | 413 | 422)) && !self.blames_the_network()
    }

    /// Whether the network has damaged the request; see `ErrorBody::was_changed_by_the_network`.
    fn blames_the_network(&self) -> bool {
        self.has_code(INCOMPLETE) || self.has_code(NO_TOKEN)
    }

    /// The pause that Canyon asks for, or the gateway that answers in its place.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Refused { pause, .. } => *pause,
            Self::Gateway { pause, .. } => Some(*pause),
            Self::Answer(_) | Self::SignIn(_) => None,
        }
    }
}

/// The connection of one agent.
#[derive(Debug)]
pub struct ApiConnection {
    http: reqwest::Client,
    url: String,
    base: String,
    sign_in: SignIn,
    clock: Arc<ServerClock>,
}

impl ApiConnection {
    /// The connection of `agent` in `org` to the Canyon at `url`. Sends no request yet.
    pub fn new(
        http: reqwest::Client,
        url: &str,
        org: &OrgId,
        agent: &AgentId,
        sign_in: SignIn,
        clock: Arc<ServerClock>,
    ) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        let agent = utf8_percent_encode(agent.as_str(), NON_ALPHANUMERIC);
        Self {
            base: format!("{url}/orgs/{org}/agents/{agent}/sessions"),
            http,
            url,
            sign_in,
            clock,
        }
    }

    /// The agent's public key in PEM, if it signs in with a key.
    pub fn public_key(&self) -> Option<String> {
        self.sign_in.public_key()
    }

    /// The fingerprint of that key, which an administrator compares before adopting the agent.
    pub fn fingerprint(&self) -> Option<String> {
        self.sign_in.fingerprint()
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::is_rejection`] when Canyon rejects the agent for good; other errors are temporary.
    pub async fn open(&self, body: &OpenSession) -> Result<SessionOpened, ConnectionError> {
        self.call(Method::POST, "", Some(body), TIMEOUT).await
    }

    /// Asks for work, and waits as long as `body` says.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::is_superseded`] when a newer session has begun.
    pub async fn poll(&self, session: u64, body: &Poll) -> Result<Work, ConnectionError> {
        let timeout = TIMEOUT + Duration::from_secs(body.wait_seconds.into());
        self.call(Method::POST, &format!("/{session}/poll"), Some(body), timeout).await
    }

    /// Takes jobs. Idempotent: a repetition has the same answer.
    ///
    /// # Errors
    ///
    /// As [`ApiConnection::poll`]. Until the answer is known, the agent must start none of them.
    pub async fn take(&self, session: u64, body: &TakeJobs) -> Result<TakenJobs, ConnectionError> {
        self.call(Method::POST, &format!("/{session}/take"), Some(body), TIMEOUT).await
    }

    /// Reports the states of jobs.
    ///
    /// # Errors
    ///
    /// As [`ApiConnection::poll`].
    pub async fn report(
        &self,
        session: u64,
        body: &Reports,
    ) -> Result<ReportsTaken, ConnectionError> {
        self.call(Method::POST, &format!("/{session}/reports"), Some(body), TIMEOUT).await
    }

    /// Ends the session, so that Canyon offers its jobs to other agents at once.
    ///
    /// # Errors
    ///
    /// As [`ApiConnection::poll`].
    pub async fn leave(&self, session: u64) -> Result<(), ConnectionError> {
        self.request::<()>(Method::DELETE, &format!("/{session}"), None, TIMEOUT).await.map(drop)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<T, ConnectionError> {
        let answer = self.request(method, path, body, timeout).await?;
        serde_json::from_slice(&answer).map_err(|error| unreadable(&self.url, error.to_string()))
    }

    /// Sends a request. If Canyon refuses the token, it retries once with a new one: the clock may have been wrong, or the
    /// token may have expired on the way.
    async fn request<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectionError> {
        let mut may_retry = true;
        loop {
            let token = self.sign_in.bearer(&self.clock).await?;
            let request_id = nonce::generate();
            let mut request = self
                .http
                .request(method.clone(), format!("{}{path}", self.base))
                .timeout(timeout)
                .header(NONCE_HEADER, &request_id)
                .bearer_auth(token.expose_secret());
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request.send().await.map_err(|error| unreachable(&self.url, error))?;
            let off = set_clock(&self.clock, response.headers());
            // An answer must name this request. An empty JSON object would be a valid answer to most requests, and other
            // servers may send one. Canyon's answer to another agent would start that agent's jobs here, or end this agent
            // with that agent's refusal.
            let answers_this =
                response.headers().get(ANSWER_NONCE_HEADER).is_some_and(|it| *it == *request_id);
            if response.status().is_success() {
                if !answers_this {
                    let reason = format!(
                        "it does not name the request: a proxy must let the headers `{NONCE_HEADER}` and `{ANSWER_NONCE_HEADER}` pass"
                    );
                    return Err(unreadable(&self.url, reason));
                }
                return Ok(read(&self.url, response).await?);
            }
            let refusal = refusal(&self.url, response, answers_this).await;
            // Only a 401 is about the token.
            let retry = refusal.status() == Some(401)
                && may_retry
                && (refusal.blames_the_network()
                    || self.sign_in.forget(&token)
                    || off > WRONG_CLOCK);
            if !retry {
                return Err(refusal);
            }
            may_retry = false;
        }
    }
}

/// An HTTP client with this machine's proxies, and its certificate authorities plus the given ones.
///
/// # Errors
///
/// A text that names the wrong setting.
pub fn http_client(authorities: Option<&Authorities>) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("canyon-agent/", env!("CARGO_PKG_VERSION")))
        // Without redirects, because one could carry the token to another host.
        .redirect(reqwest::redirect::Policy::none());
    if let Some(authorities) = authorities {
        let certificates = Certificate::from_pem_bundle(&authorities.read()?)
            .map_err(|error| format!("{authorities} has no certificates: {}", Causes(&error)))?;
        if certificates.is_empty() {
            return Err(format!("{authorities} has no certificates in PEM form"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder
        .build()
        .map_err(|error| format!("this machine cannot make requests: {}", Causes(&error)))
}

fn unreadable(url: &str, reason: String) -> ConnectionError {
    AnswerError::Unreadable { url: url.to_owned(), reason }.into()
}

/// The error for an answer that is not a success. The answer may be a gateway's, not Canyon's.
async fn refusal(url: &str, response: Response, answers_this: bool) -> ConnectionError {
    let status = response.status().as_u16();
    let pause = retry_after::pause(response.headers());
    let text = read(url, response).await.unwrap_or_default();
    let Some(body) = ErrorBody::of_answer(status, &text).filter(|_| answers_this) else {
        // A proxy, a firewall or a maintenance page: Canyon itself may accept the request. Only the pause is used.
        let url = url.to_owned();
        if let Some(pause) = pause {
            return ConnectionError::Gateway { url, status, pause };
        }
        let reason = format!("status {status}, and not Canyon's answer to this request");
        return unreadable(&url, reason);
    };
    let code =
        body.details.get("code").and_then(|code| code.as_str()).unwrap_or_default().to_owned();
    let standby = body.details.get("standby").and_then(serde_json::Value::as_bool).unwrap_or(false);
    ConnectionError::Refused { status, code, message: body.message, pause, standby }
}

#[cfg(test)]
mod tests;
