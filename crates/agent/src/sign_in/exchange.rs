//! Exchanges a token of the platform for one of Canyon's (RFC 8693).
//!
//! Canyon's token is valid for a quarter of an hour. It is renewed well before it expires. All requests that wait for
//! it share one exchange. After a failed exchange there is a pause.

use super::SignInError;
use super::source::Source;
use crate::answer;
use crate::backoff::Backoff;
use crate::retry_after;
use crate::server_clock::ServerClock;
use canyon_api::nonce::{self, ANSWER_NONCE_HEADER, NONCE_HEADER};
use canyon_api::token_exchange::{AccessToken, GRANT_TYPE, JWT, OAuthError};
use canyon_domain::ids::{OrgId, ServiceAccountId};
use secrecy::{ExposeSecret, SecretString};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(20);

/// The exchange for one service account.
#[derive(Debug)]
pub struct Exchange {
    http: reqwest::Client,
    url: String,
    account: ServiceAccountId,
    source: Source,
    current: Mutex<Option<CurrentToken>>,
    /// Held during an exchange, so that there is one at a time; has the last failure.
    exchanging: tokio::sync::Mutex<Failing>,
}

#[derive(Debug)]
struct CurrentToken {
    token: SecretString,
    /// When it is renewed.
    renew_at: Instant,
    /// When it expires.
    expires_at: Instant,
}

#[derive(Debug, Default)]
struct Failing {
    backoff: Backoff,
    last: Option<(Instant, SignInError)>,
}

/// Why the exchange failed, and the pause that Canyon asks for.
struct Failure(SignInError, Option<Duration>);

impl From<SignInError> for Failure {
    fn from(error: SignInError) -> Self {
        Self(error, None)
    }
}

impl Exchange {
    /// The exchange with the Canyon at `url`. Sends no request yet.
    pub fn new(
        http: reqwest::Client,
        url: &str,
        org: &OrgId,
        account: ServiceAccountId,
        source: Source,
    ) -> Self {
        let url = format!("{}/orgs/{org}/oauth/token", url.trim_end_matches('/'));
        Self {
            http,
            url,
            account,
            source,
            current: Mutex::default(),
            exchanging: tokio::sync::Mutex::default(),
        }
    }

    fn current(&self, is_usable: impl Fn(&CurrentToken) -> bool) -> Option<SecretString> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|current| is_usable(current)).map(|current| current.token.clone())
    }

    /// A valid token; exchanges a new one if the present one is due for renewal.
    ///
    /// # Errors
    ///
    /// [`SignInError`] when the exchange failed and the present token has expired.
    pub async fn token(&self, clock: &ServerClock) -> Result<SecretString, SignInError> {
        let is_fresh = |current: &CurrentToken| Instant::now() < current.renew_at;
        if let Some(token) = self.current(is_fresh) {
            return Ok(token);
        }
        let mut failing = self.exchanging.lock().await;
        if let Some(token) = self.current(is_fresh) {
            return Ok(token);
        }
        let is_valid = |current: &CurrentToken| Instant::now() < current.expires_at;
        if let Some((until, error)) = &failing.last
            && Instant::now() < *until
        {
            return self.current(is_valid).ok_or_else(|| error.clone());
        }
        match self.exchange(clock).await {
            Ok(new) => {
                let token = new.token.clone();
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                *failing = Failing::default();
                Ok(token)
            }
            Err(Failure(error, asked)) => {
                let pause = failing.backoff.pause_of(asked);
                failing.last = Some((Instant::now() + pause, error.clone()));
                self.current(is_valid).ok_or(error)
            }
        }
    }

    /// Drops a token that Canyon has refused. A newer token stays.
    pub fn forget(&self, refused: &SecretString) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.take_if(|current| current.token.expose_secret() == refused.expose_secret());
    }

    async fn exchange(&self, clock: &ServerClock) -> Result<CurrentToken, Failure> {
        let subject = self.source.token().await?;
        let form = [
            ("grant_type", GRANT_TYPE),
            ("subject_token_type", JWT),
            ("subject_token", subject.expose_secret()),
            ("service_account", self.account.as_str()),
        ];
        let began = Instant::now();
        let failed = |error: answer::AnswerError| SignInError(error.to_string());
        let request_id = nonce::generate();
        let request = self
            .http
            .post(&self.url)
            .timeout(TIMEOUT)
            .header(NONCE_HEADER, &request_id)
            .form(&form);
        let response = request.send().await;
        let response = response.map_err(|error| failed(answer::unreachable(&self.url, error)))?;
        answer::set_clock(clock, response.headers());
        let (status, asked) = (response.status(), retry_after::pause(response.headers()));
        let answers_this =
            response.headers().get(ANSWER_NONCE_HEADER).is_some_and(|it| *it == *request_id);
        let body = answer::read(&self.url, response).await.map_err(failed)?;
        if !answers_this {
            // With another agent's token, this agent would sign in as that one, and Canyon would reject it for good.
            let reason = format!(
                "the answer of {} (status {status}) does not name the request: a proxy must let the headers `{NONCE_HEADER}` and \
                 `{ANSWER_NONCE_HEADER}` pass",
                self.url
            );
            return Err(Failure(SignInError(reason), asked));
        }
        if !status.is_success() {
            let message = serde_json::from_slice::<OAuthError>(&body).ok();
            let message = message.map_or_else(|| format!("status {status}"), |body| body.message);
            let (account, source) = (&self.account, &self.source);
            let reason =
                format!("service account `{account}` with the token from {source}: {message}");
            return Err(Failure(SignInError(reason), asked));
        }
        let answer: AccessToken = serde_json::from_slice(&body).map_err(|error| {
            SignInError(format!("the answer of {} has no token: {error}", self.url))
        })?;
        let life = Duration::from_secs(answer.expires_in);
        Ok(CurrentToken {
            token: answer.access_token.into(),
            renew_at: began + life * 2 / 3,
            expires_at: began + life.saturating_sub(Duration::from_secs(10)),
        })
    }
}
