//! Canyon's token for a federated one, by Google's own library.
//!
//! The library could go on to the service account. But it does not tell when that token ends, and a
//! time in the past makes it panic; so that step is in `gcp`.

use super::post::reason;
use google_cloud_auth::credentials::CacheableResource;
use google_cloud_auth::credentials::external_account::ProgrammaticBuilder;
use google_cloud_auth::credentials::subject_token::{Builder, SubjectToken, SubjectTokenProvider};
use google_cloud_auth::errors::CredentialsError;
use http::{Extensions, HeaderValue, header::AUTHORIZATION};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// All that the federated token is for.
const IAM_SCOPE: &str = "https://www.googleapis.com/auth/iam";
const TRY: Duration = Duration::from_secs(10);
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Why there is no federated token.
#[derive(Debug, Default)]
pub(super) struct ExchangeFailure {
    /// Of the answer; 0 if there was none.
    pub(super) status: u16,
    /// As in RFC 6749, section 5.2.
    pub(super) code: String,
    pub(super) words: String,
}

#[derive(Debug)]
struct Subject(SecretString);

impl SubjectTokenProvider for Subject {
    type Error = CredentialsError;

    async fn subject_token(&self) -> Result<SubjectToken, CredentialsError> {
        Ok(Builder::new(self.0.expose_secret()).build())
    }
}

/// A header with the federated token.
pub(super) async fn exchange_token(
    address: String,
    provider: &str,
    token: SecretString,
) -> Result<HeaderValue, ExchangeFailure> {
    let subject = Arc::new(Subject(token));
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match once(&address, provider, Arc::clone(&subject)).await {
            Err(failure) if failure.status == 0 || failure.status >= 500 => {
                tokio::time::sleep(pause).await;
            }
            settled => return settled,
        }
        pause *= 4;
    }
    once(&address, provider, subject).await
}

async fn once(
    address: &str,
    provider: &str,
    subject: Arc<Subject>,
) -> Result<HeaderValue, ExchangeFailure> {
    let credentials = ProgrammaticBuilder::new(subject)
        .with_audience(provider)
        .with_subject_token_type(JWT)
        .with_token_url(address)
        .with_scopes([IAM_SCOPE])
        .build()
        .map_err(|error| ExchangeFailure { words: reason(&error), ..Default::default() })?;
    let headers = tokio::time::timeout(TRY, credentials.headers(Extensions::new())).await;
    let silent = || ExchangeFailure { words: "it took too long".to_owned(), ..Default::default() };
    let headers = headers.map_err(|_| silent())?.map_err(|error| failure(&error))?;
    let CacheableResource::New { data: mut headers, .. } = headers else {
        return Err(ExchangeFailure { words: "no token came".to_owned(), ..Default::default() });
    };
    headers.remove(AUTHORIZATION).ok_or_else(ExchangeFailure::default)
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// The library tells the answer in its texts only.
fn failure(error: &CredentialsError) -> ExchangeFailure {
    let mut status = 0;
    let mut refusal = None;
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if let Some(answer) =
            error.downcast_ref::<reqwest::Error>().and_then(reqwest::Error::status)
        {
            status = answer.as_u16();
        }
        refusal = refusal.or_else(|| body(&error.to_string()));
        cause = error.source();
    }
    match refusal {
        Some(Refusal { error: code, error_description: words }) => {
            ExchangeFailure { status, code, words }
        }
        None if status > 0 => {
            ExchangeFailure { status, words: format!("HTTP status {status}"), ..Default::default() }
        }
        None => ExchangeFailure { status, words: reason(error), ..Default::default() },
    }
}

fn body(text: &str) -> Option<Refusal> {
    let (_, rest) = text.split_once("body=<")?;
    serde_json::from_str(rest.rsplit_once('>')?.0).ok()
}
