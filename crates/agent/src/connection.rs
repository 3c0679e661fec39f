//! The connection to Canyon's API. Each request carries the agent's proof of identity.

use crate::settings::authorities::Authorities;
use crate::sign_in::{SignIn, SignInError};
use canyon_api::agent::{
    OpenSession, Poll, Reports, ReportsTaken, SessionOpened, TakeJobs, TakenJobs, Work,
};
use canyon_api::client::{Client, ClientError};
use canyon_domain::causes::Causes;
use canyon_domain::ids::AgentId;
use reqwest::Certificate;
use std::time::{Duration, Instant};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// If the clock was off by more than this, Canyon may have refused a token because of it.
const WRONG_CLOCK: Duration = Duration::from_secs(5);

/// Why a request failed. Except for a refusal, its effect is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Canyon refused the request, or has not answered it.
    #[error("{}", Causes(.0))]
    Client(ClientError),
    /// The agent has no proof of identity at the moment.
    #[error("cannot sign in: {0}")]
    SignIn(#[from] SignInError),
}

impl ConnectionError {
    fn client(&self) -> Option<&ClientError> {
        match self {
            Self::Client(error) => Some(error),
            Self::SignIn(_) => None,
        }
    }

    /// The status code, if Canyon itself has answered.
    pub fn status(&self) -> Option<u16> {
        self.client()?.status()
    }

    fn has_code(&self, wanted: &str) -> bool {
        self.client().and_then(ClientError::code) == Some(wanted)
    }

    /// Whether a newer session of this agent has superseded this one.
    pub fn is_superseded(&self) -> bool {
        self.status() == Some(409) && self.has_code("session_superseded")
    }

    /// Whether a newer session has superseded this one, and this process may wait for its end. An older Canyon supports
    /// no processes that stand by.
    pub fn may_stand_by(&self) -> bool {
        self.is_superseded() && self.client().is_some_and(|error| error.has_detail("standby"))
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

    fn blames_the_network(&self) -> bool {
        self.client().is_some_and(ClientError::blames_the_network)
    }

    /// The pause that Canyon asks for, or the gateway that answers in its place.
    pub fn pause(&self) -> Option<Duration> {
        self.client()?.retry_after()
    }
}

/// The connection of one agent.
#[derive(Debug)]
pub struct ApiConnection {
    client: Client,
    agent: AgentId,
    sign_in: SignIn,
}

impl ApiConnection {
    /// The connection of `agent`. `client` needs no token. Sends no request yet.
    pub fn new(client: Client, agent: &AgentId, sign_in: SignIn) -> Self {
        Self { client, agent: agent.clone(), sign_in }
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
        let agent = self.agent.as_str();
        self.call(|client| async move { client.open_session(agent, body).await }).await
    }

    /// Asks for work, and waits as long as `body` says.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::is_superseded`] when a newer session has begun.
    pub async fn poll(&self, session: u64, body: &Poll) -> Result<Work, ConnectionError> {
        let agent = self.agent.as_str();
        self.call(|client| async move { client.poll_work(agent, session, body).await }).await
    }

    /// Takes jobs. Idempotent: a repetition has the same answer.
    ///
    /// # Errors
    ///
    /// As [`ApiConnection::poll`]. Until the answer is known, the agent must start none of them.
    pub async fn take(&self, session: u64, body: &TakeJobs) -> Result<TakenJobs, ConnectionError> {
        let agent = self.agent.as_str();
        self.call(|client| async move { client.take_jobs(agent, session, body).await }).await
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
        let agent = self.agent.as_str();
        self.call(|client| async move { client.report_jobs(agent, session, body).await }).await
    }

    /// Ends the session, so that Canyon offers its jobs to other agents at once.
    ///
    /// # Errors
    ///
    /// As [`ApiConnection::poll`].
    pub async fn leave(&self, session: u64) -> Result<(), ConnectionError> {
        let agent = self.agent.as_str();
        self.call(|client| async move { client.close_session(agent, session).await }).await
    }

    /// Sends a request. If Canyon refuses the token, it retries once with a new one: the clock may have been wrong, or the
    /// token may have expired on the way.
    async fn call<T, F>(&self, send: impl Fn(Client) -> F) -> Result<T, ConnectionError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let (clock, mut may_retry) = (self.client.clock(), true);
        loop {
            let (began, shown) = (Instant::now(), clock.now());
            let token = self.sign_in.bearer(clock).await?;
            let error = match send(self.client.with_token(token.clone())).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // Only a 401 is about the token.
            let retry = error.status() == Some(401)
                && may_retry
                && (error.blames_the_network()
                    || self.sign_in.forget(&token)
                    || clock.correction_since(began, shown) > WRONG_CLOCK);
            if !retry {
                return Err(ConnectionError::Client(error));
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

#[cfg(test)]
mod tests;
