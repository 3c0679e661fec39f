//! Exchanges Canyon's token for a federated token with Google's own library.
//!
//! The library could also do the exchange for the service account. But it does not return the
//! expiry of that token, and panics if the expiry is in the past; so `gcp` does that step.

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
/// The only scope that the federated token needs.
const IAM_SCOPE: &str = "https://www.googleapis.com/auth/iam";
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ATTEMPTS: u32 = 3;
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Why there is no federated token.
#[derive(Debug, Default)]
pub(super) struct ExchangeFailure {
    /// HTTP status of the answer; 0 if there was none.
    pub(super) status: u16,
    /// Error code of RFC 6749, section 5.2.
    pub(super) code: String,
    pub(super) message: String,
}

#[derive(Debug)]
struct Subject(SecretString);

impl SubjectTokenProvider for Subject {
    type Error = CredentialsError;

    async fn subject_token(&self) -> Result<SubjectToken, CredentialsError> {
        Ok(Builder::new(self.0.expose_secret()).build())
    }
}

/// Returns a header with the federated token.
pub(super) async fn exchange_token(
    address: String,
    provider: &str,
    token: SecretString,
) -> Result<HeaderValue, ExchangeFailure> {
    let subject = Arc::new(Subject(token));
    let mut pause = FIRST_RETRY_DELAY;
    for _ in 1..MAX_ATTEMPTS {
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
        .map_err(|error| ExchangeFailure { message: reason(&error), ..Default::default() })?;
    let headers =
        tokio::time::timeout(ATTEMPT_TIMEOUT, credentials.headers(Extensions::new())).await;
    let silent =
        || ExchangeFailure { message: "it took too long".to_owned(), ..Default::default() };
    let headers = headers.map_err(|_| silent())?.map_err(|error| failure(&error))?;
    let CacheableResource::New { data: mut headers, .. } = headers else {
        return Err(ExchangeFailure {
            message: "the answer has no token".to_owned(),
            ..Default::default()
        });
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

/// Parses the answer from the library's messages, because it has no other form.
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
        Some(Refusal { error: code, error_description: message }) => {
            ExchangeFailure { status, code, message }
        }
        None if status > 0 => ExchangeFailure {
            status,
            message: format!("HTTP status {status}"),
            ..Default::default()
        },
        None => ExchangeFailure { status, message: reason(error), ..Default::default() },
    }
}

fn body(text: &str) -> Option<Refusal> {
    let (_, rest) = text.split_once("body=<")?;
    serde_json::from_str(rest.rsplit_once('>')?.0).ok()
}
