//! A token of the place, exchanged for one of Canyon's (RFC 8693).
//!
//! Canyon's is good for a quarter of an hour. It is replaced well before its end; all who ask meanwhile
//! share one exchange, and one that fails is not repeated at once.

use super::SignInError;
use super::source::Source;
use crate::backoff::Backoff;
use crate::line;
use crate::retry_after;
use crate::server_clock::ServerClock;
use canyon_api::ask::{self, ANSWER_TO, ASK};
use canyon_api::token_exchange::{AccessToken, GRANT_TYPE, JWT, OAuthError};
use canyon_domain::ids::{OrgId, ServiceAccountId};
use secrecy::{ExposeSecret, SecretString};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(20);

/// The exchange of one service account.
#[derive(Debug)]
pub struct Exchange {
    http: reqwest::Client,
    url: String,
    account: ServiceAccountId,
    source: Source,
    kept: Mutex<Option<Kept>>,
    /// Held by whoever exchanges; what it knows is of the last failure.
    turn: tokio::sync::Mutex<Failing>,
}

#[derive(Debug)]
struct Kept {
    token: SecretString,
    /// From when on it is replaced.
    replace: Instant,
    /// Until when it is good.
    until: Instant,
}

#[derive(Debug, Default)]
struct Failing {
    backoff: Backoff,
    last: Option<(Instant, SignInError)>,
}

/// Why there was no exchange, and the pause that Canyon asks for.
struct Failure(SignInError, Option<Duration>);

impl From<SignInError> for Failure {
    fn from(error: SignInError) -> Self {
        Self(error, None)
    }
}

impl Exchange {
    /// The exchange at the Canyon at `url`. Nothing is asked yet.
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
            kept: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn kept(&self, wanted: impl Fn(&Kept) -> bool) -> Option<SecretString> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|kept| wanted(kept)).map(|kept| kept.token.clone())
    }

    /// A token that is good for a while.
    ///
    /// # Errors
    ///
    /// [`SignInError`] when there is none, and none can be had.
    pub async fn token(&self, clock: &ServerClock) -> Result<SecretString, SignInError> {
        let fresh = |kept: &Kept| Instant::now() < kept.replace;
        if let Some(token) = self.kept(fresh) {
            return Ok(token);
        }
        let mut turn = self.turn.lock().await;
        if let Some(token) = self.kept(fresh) {
            return Ok(token);
        }
        let still = |kept: &Kept| Instant::now() < kept.until;
        if let Some((until, error)) = &turn.last
            && Instant::now() < *until
        {
            return self.kept(still).ok_or_else(|| error.clone());
        }
        match self.exchange(clock).await {
            Ok(kept) => {
                let token = kept.token.clone();
                *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
                *turn = Failing::default();
                Ok(token)
            }
            Err(Failure(error, asked)) => {
                turn.last = Some((Instant::now() + turn.backoff.pause_of(asked), error.clone()));
                self.kept(still).ok_or(error)
            }
        }
    }

    /// Canyon does not take this token any more. One that was exchanged meanwhile stays.
    pub fn forget(&self, refused: &SecretString) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_if(|kept| kept.token.expose_secret() == refused.expose_secret());
    }

    async fn exchange(&self, clock: &ServerClock) -> Result<Kept, Failure> {
        let subject = self.source.token().await?;
        let form = [
            ("grant_type", GRANT_TYPE),
            ("subject_token_type", JWT),
            ("subject_token", subject.expose_secret()),
            ("service_account", self.account.as_str()),
        ];
        let began = Instant::now();
        let failed = |error: line::LineError| SignInError(error.to_string());
        let word = ask::draw();
        let request = self.http.post(&self.url).timeout(TIMEOUT).header(ASK, &word).form(&form);
        let response =
            request.send().await.map_err(|error| failed(line::unreachable(&self.url, error)))?;
        line::heard(clock, response.headers());
        let (status, asked) = (response.status(), retry_after::pause(response.headers()));
        let answers_this = response.headers().get(ANSWER_TO).is_some_and(|it| *it == *word);
        let body = line::read(&self.url, response).await.map_err(failed)?;
        if !answers_this {
            // With another agent's token this one would sign in as that one, and be refused for good.
            let why = format!(
                "the answer of {} (status {status}) does not name the request: a proxy must let the headers `{ASK}` and \
                 `{ANSWER_TO}` pass",
                self.url
            );
            return Err(Failure(SignInError(why), asked));
        }
        if !status.is_success() {
            let said = serde_json::from_slice::<OAuthError>(&body).ok();
            let said = said.map_or_else(|| format!("status {status}"), |said| said.message);
            let (account, source) = (&self.account, &self.source);
            let why = format!("service account `{account}` with the token from {source}: {said}");
            return Err(Failure(SignInError(why), asked));
        }
        let answer: AccessToken = serde_json::from_slice(&body).map_err(|error| {
            SignInError(format!("the answer of {} is no token: {error}", self.url))
        })?;
        let life = Duration::from_secs(answer.expires_in);
        Ok(Kept {
            token: answer.access_token.into(),
            replace: began + life * 2 / 3,
            until: began + life.saturating_sub(Duration::from_secs(10)),
        })
    }
}
