//! The exchange of another issuer's token for one of Canyon's.

use super::{Client, ClientError};
use crate::error::ErrorBody;
use crate::token_exchange::{AccessToken, GRANT_TYPE, JWT, OAuthError, TokenExchangeForm};
use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Map;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

impl Client {
    /// Exchanges `subject_token` for a token of the service account. The client's own token is not used.
    ///
    /// # Errors
    ///
    /// 400 with OAuth's code in `details.code`, such as `invalid_grant` if no identity of the service account matches.
    pub async fn exchange_token(
        &self,
        subject_token: &SecretString,
        service_account: &str,
    ) -> Result<AccessToken, ClientError> {
        let form = TokenExchangeForm {
            grant_type: GRANT_TYPE.to_owned(),
            subject_token: subject_token.expose_secret().to_owned(),
            subject_token_type: JWT.to_owned(),
            service_account: service_account.to_owned(),
            audience: None,
            requested_token_type: None,
        };
        let request = self.request_without_token(Method::POST, &["oauth", "token"]).form(&form);
        let response = self.send_with_nonce(request.timeout(TIMEOUT)).await?;
        let answer = self.answer(response).await?;
        if answer.status.is_success() {
            return self.parsed(&answer);
        }
        let status = answer.status.as_u16();
        let refused = match serde_json::from_slice::<OAuthError>(&answer.body) {
            Ok(error) => {
                let body = ErrorBody {
                    error: ErrorBody::code_of(status),
                    message: error.message,
                    details: Map::from_iter([("code".to_owned(), error.error.into())]),
                    request_id: Some(error.request_id),
                };
                ClientError::Refused { status, body: Box::new(body), retry_after: None }
            }
            Err(error) => answer.foreign(&self.url, error),
        };
        Err(refused.with_retry_after(super::retry_after::pause(&answer.headers)))
    }
}
