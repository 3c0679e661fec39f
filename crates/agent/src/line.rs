//! The line to Canyon: one request at a time, signed as this agent.

use crate::retry_after;
use crate::server_clock::ServerClock;
use crate::settings::authorities::Authorities;
use crate::sign_in::{SignIn, SignInError};
use canyon_api::agent::{
    OpenSession, Poll, Reports, ReportsTaken, SessionOpened, TakeJobs, TakenJobs, Work,
};
use canyon_api::ask::{self, ANSWER_TO, ASK};
use canyon_api::error::{ErrorBody, INCOMPLETE, NO_TOKEN};
use canyon_domain::causes::Causes;
use canyon_domain::ids::{AgentId, OrgId};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{DATE, HeaderMap};
use reqwest::{Certificate, Method, Response};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// How long a request without a wait may take.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// The most that is read of an answer, in bytes. A hundred jobs with their pod templates fit.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// The clock was that wrong that what it signed may have been refused for it.
const WRONG_CLOCK: Duration = Duration::from_secs(5);

/// Why a request changed nothing, or nobody knows what it changed.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// No answer came.
    #[error("cannot reach Canyon at {url}: {reason}")]
    Unreachable {
        /// Where it was expected.
        url: String,
        /// Why.
        reason: String,
    },
    /// Canyon answered that it will not.
    #[error("{message}")]
    Refused {
        /// The status code.
        status: u16,
        /// The word for programs, or nothing.
        code: String,
        /// Its words.
        message: String,
        /// When it may be asked again.
        pause: Option<Duration>,
        /// Canyon knows processes that stand by for the one that superseded them.
        standby: bool,
    },
    /// Something on the way is busy or in repair, and said when to come again.
    #[error("{url} answered with status {status}, and not with Canyon's words")]
    Gateway {
        /// Who answered.
        url: String,
        /// The status code. It says nothing of what Canyon would answer.
        status: u16,
        /// When to come again.
        pause: Duration,
    },
    /// Something answered, but not as Canyon does.
    #[error("the answer from {url} is not Canyon's ({reason}); does CANYON_API_URL point to it?")]
    Unreadable {
        /// Who answered.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The agent has nothing to sign in by at the moment.
    #[error("cannot sign in: {0}")]
    SignIn(#[from] SignInError),
}

impl LineError {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable { .. }
            | Self::Gateway { .. }
            | Self::Unreadable { .. }
            | Self::SignIn(_) => None,
        }
    }

    fn has_code(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == wanted)
    }

    /// A newer session of this agent speaks for it.
    pub fn is_superseded(&self) -> bool {
        self.status() == Some(409) && self.has_code("session_superseded")
    }

    /// A newer session speaks for the agent, and this process may wait until that one is gone.
    pub fn may_stand_by(&self) -> bool {
        self.is_superseded() && matches!(self, Self::Refused { standby: true, .. })
    }

    /// Nobody has adopted this agent yet.
    pub fn is_pending(&self) -> bool {
        self.status() == Some(409) && self.has_code("pending")
    }

    /// Somebody has refused this agent, or its name is another's. No repetition helps.
    pub fn is_rejection(&self) -> bool {
        self.has_code("rejected") || self.has_code("another_agent")
    }

    /// Canyon does not know the agent, or not by what it shows: somebody may have forgotten it, and then it
    /// begins anew.
    pub fn is_stranger(&self) -> bool {
        matches!(self.status(), Some(401 | 404)) && !self.blames_the_network()
    }

    /// Canyon will say the same again: the request itself is at fault, as the agent has sent it.
    pub fn is_lasting(&self) -> bool {
        matches!(self.status(), Some(400 | 403 | 409 | 413 | 422))
            && !self.has_code("contended")
            && !self.blames_the_network()
    }

    /// What was sent is at fault, whoever sent it and in whichever session.
    pub fn is_about_the_body(&self) -> bool {
        matches!(self.status(), Some(400 | 413 | 422)) && !self.blames_the_network()
    }

    /// The request came otherwise than it was sent; see `ErrorBody::blames_the_network`.
    fn blames_the_network(&self) -> bool {
        self.has_code(INCOMPLETE) || self.has_code(NO_TOKEN)
    }

    /// The pause that Canyon asks for, or whoever answers in its place.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Refused { pause, .. } => *pause,
            Self::Gateway { pause, .. } => Some(*pause),
            Self::Unreachable { .. } | Self::Unreadable { .. } | Self::SignIn(_) => None,
        }
    }
}

/// The line.
#[derive(Debug)]
pub struct Line {
    http: reqwest::Client,
    url: String,
    base: String,
    sign_in: SignIn,
    clock: Arc<ServerClock>,
}

impl Line {
    /// The line of the agent `agent` of `org` to the Canyon at `url`. Nothing is asked yet.
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

    /// The agent's public key, PEM, where it signs in by one.
    pub fn public_key(&self) -> Option<String> {
        self.sign_in.public_key()
    }

    /// What people compare before they adopt the agent.
    pub fn fingerprint(&self) -> Option<String> {
        self.sign_in.fingerprint()
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// [`LineError::is_rejection`] when the agent may never; the others pass.
    pub async fn open(&self, body: &OpenSession) -> Result<SessionOpened, LineError> {
        self.call(Method::POST, "", Some(body), TIMEOUT).await
    }

    /// Asks for work, for as long as the poll says.
    ///
    /// # Errors
    ///
    /// [`LineError::is_superseded`] when a newer session has begun.
    pub async fn poll(&self, session: u64, body: &Poll) -> Result<Work, LineError> {
        let timeout = TIMEOUT + Duration::from_secs(body.wait_seconds.into());
        self.call(Method::POST, &format!("/{session}/poll"), Some(body), timeout).await
    }

    /// Takes jobs. The same again has the same answer.
    ///
    /// # Errors
    ///
    /// As [`Line::poll`]. While nobody knows, nothing may be started.
    pub async fn take(&self, session: u64, body: &TakeJobs) -> Result<TakenJobs, LineError> {
        self.call(Method::POST, &format!("/{session}/take"), Some(body), TIMEOUT).await
    }

    /// Says what became of jobs.
    ///
    /// # Errors
    ///
    /// As [`Line::poll`].
    pub async fn report(&self, session: u64, body: &Reports) -> Result<ReportsTaken, LineError> {
        self.call(Method::POST, &format!("/{session}/reports"), Some(body), TIMEOUT).await
    }

    /// Takes leave: what was offered goes to others at once.
    ///
    /// # Errors
    ///
    /// As [`Line::poll`].
    pub async fn leave(&self, session: u64) -> Result<(), LineError> {
        self.request::<()>(Method::DELETE, &format!("/{session}"), None, TIMEOUT).await.map(drop)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<T, LineError> {
        let answer = self.request(method, path, body, timeout).await?;
        serde_json::from_slice(&answer).map_err(|error| LineError::Unreadable {
            url: self.url.clone(),
            reason: error.to_string(),
        })
    }

    /// Asks, and once more with fresh proof when the first is refused: a clock may have been wrong, or a
    /// token may have ended on the way.
    async fn request<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        timeout: Duration,
    ) -> Result<Vec<u8>, LineError> {
        let mut again = true;
        loop {
            let token = self.sign_in.bearer(&self.clock).await?;
            let word = ask::draw();
            let mut request = self
                .http
                .request(method.clone(), format!("{}{path}", self.base))
                .timeout(timeout)
                .header(ASK, &word)
                .bearer_auth(token.expose_secret());
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request.send().await.map_err(|error| unreachable(&self.url, error))?;
            let off = heard(&self.clock, response.headers());
            // An empty object would be a good answer to most of this, and anything may give one; Canyon's own answer to
            // another agent would start that one's jobs here, or end this agent with that one's refusal.
            let answers_this = response.headers().get(ANSWER_TO).is_some_and(|it| *it == *word);
            if response.status().is_success() {
                if !answers_this {
                    let reason = format!(
                        "it does not name the request: a proxy must let the headers `{ASK}` and `{ANSWER_TO}` pass"
                    );
                    return Err(LineError::Unreadable { url: self.url.clone(), reason });
                }
                return read(&self.url, response).await;
            }
            let refusal = refusal(&self.url, response, answers_this).await;
            // Only a 401 says anything against the token.
            let retry = refusal.status() == Some(401)
                && again
                && (refusal.blames_the_network()
                    || self.sign_in.forget(&token)
                    || off > WRONG_CLOCK);
            if !retry {
                return Err(refusal);
            }
            again = false;
        }
    }
}

/// A client of this machine's proxies and certificate authorities, and these besides.
///
/// # Errors
///
/// What is wrong, with the setting to change.
pub fn http_client(authorities: Option<&Authorities>) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .user_agent(concat!("canyon-agent/", env!("CARGO_PKG_VERSION")))
        // A redirect could carry the token to another host.
        .redirect(reqwest::redirect::Policy::none());
    if let Some(authorities) = authorities {
        let certificates = Certificate::from_pem_bundle(&authorities.read()?)
            .map_err(|error| format!("{authorities} holds no certificates: {}", Causes(&error)))?;
        if certificates.is_empty() {
            return Err(format!("{authorities} holds no certificates in PEM form"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder
        .build()
        .map_err(|error| format!("this machine cannot make requests: {}", Causes(&error)))
}

pub(crate) fn heard(clock: &ServerClock, headers: &HeaderMap) -> Duration {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    date.map_or(Duration::ZERO, |date| clock.heard(date))
}

pub(crate) fn unreachable(url: &str, error: reqwest::Error) -> LineError {
    // reqwest repeats the whole address, and says the cause only in its sources.
    let error = error.without_url();
    let reason = Causes(&error).to_string();
    LineError::Unreachable { url: url.to_owned(), reason }
}

/// The answer's body, if it is not too long.
pub(crate) async fn read(url: &str, mut response: Response) -> Result<Vec<u8>, LineError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(url, error))? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            let reason = format!("it has more than {} MiB", MAX_ANSWER / 1024 / 1024);
            return Err(LineError::Unreadable { url: url.to_owned(), reason });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What an answer says that is no success, and that may not be Canyon's answer to this request.
async fn refusal(url: &str, response: Response, answers_this: bool) -> LineError {
    let status = response.status().as_u16();
    let pause = retry_after::pause(response.headers());
    let text = read(url, response).await.unwrap_or_default();
    let Some(body) = ErrorBody::of_answer(status, &text).filter(|_| answers_this) else {
        // A proxy, a firewall or a maintenance page: what it refuses, Canyon may not. When to come again, it may say.
        let url = url.to_owned();
        if let Some(pause) = pause {
            return LineError::Gateway { url, status, pause };
        }
        let reason = format!("status {status}, and not Canyon's answer to this request");
        return LineError::Unreadable { url, reason };
    };
    let code =
        body.details.get("code").and_then(|code| code.as_str()).unwrap_or_default().to_owned();
    let standby = body.details.get("standby").and_then(serde_json::Value::as_bool).unwrap_or(false);
    LineError::Refused { status, code, message: body.message, pause, standby }
}

#[cfg(test)]
mod tests;
