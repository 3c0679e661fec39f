//! Exchanges a token of the platform for one of Canyon's (RFC 8693).
//!
//! Canyon's token is valid for a quarter of an hour. It is renewed well before it expires. All requests that wait for
//! it share one exchange. After a failed exchange there is a pause.

use super::SignInError;
use super::source::Source;
use crate::backoff::Backoff;
use canyon_api::client::{Client, ClientError, SignInAs};
use canyon_domain::causes::Causes;
use canyon_domain::ids::{OrgId, ServiceAccountId};
use secrecy::{ExposeSecret, SecretString};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The exchange for one service account.
#[derive(Debug)]
pub struct Exchange {
    client: Client,
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
        let client = Client::over(http, url, org.as_str());
        let (current, exchanging) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { client, account, source, current, exchanging }
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
    pub async fn token(&self) -> Result<SecretString, SignInError> {
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
        match self.exchange().await {
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

    async fn exchange(&self) -> Result<CurrentToken, Failure> {
        let subject = self.source.token().await?;
        let began = Instant::now();
        let answer = self
            .client
            .exchange_token(&subject, SignInAs::ServiceAccount(self.account.as_str()))
            .await;
        let answer = answer.map_err(|error| self.failure(&error))?;
        let life = Duration::from_secs(answer.expires_in);
        Ok(CurrentToken {
            token: answer.access_token.into(),
            renew_at: began + life * 2 / 3,
            expires_at: began + life.saturating_sub(Duration::from_secs(10)),
        })
    }

    fn failure(&self, error: &ClientError) -> Failure {
        let (account, source, cause) = (&self.account, &self.source, Causes(error));
        let reason = format!("service account `{account}` with the token from {source}: {cause}");
        Failure(SignInError(reason), error.retry_after())
    }
}
