//! The exchange of another issuer's token for one of Canyon's.

use super::{Answer, Client, ClientError};
use crate::error::ErrorBody;
use crate::token_exchange::{
    AccessToken, GRANT_TYPE, JWT, OAuthError, TokenExchangeForm, TokenRevocationForm,
};
use reqwest::{Method, RequestBuilder};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Map;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// What to sign in as.
#[derive(Clone, Copy, Debug)]
pub enum SignInAs<'a> {
    /// A service account, by its id.
    ServiceAccount(&'a str),
    /// A person of an identity provider, by the provider's id.
    PersonOf(&'a str),
}

impl Client {
    /// Exchanges `subject_token` for a token of Canyon. The client's own token is not used.
    ///
    /// # Errors
    ///
    /// 400 with OAuth's code in `details.code`, such as `invalid_grant` if the token does not let its bearer sign in so.
    pub async fn exchange_token(
        &self,
        subject_token: &SecretString,
        sign_in_as: SignInAs<'_>,
    ) -> Result<AccessToken, ClientError> {
        let (service_account, identity_provider) = match sign_in_as {
            SignInAs::ServiceAccount(id) => (Some(id.to_owned()), None),
            SignInAs::PersonOf(id) => (None, Some(id.to_owned())),
        };
        let form = TokenExchangeForm {
            grant_type: GRANT_TYPE.to_owned(),
            subject_token: subject_token.expose_secret().to_owned(),
            subject_token_type: JWT.to_owned(),
            service_account,
            identity_provider,
            audience: None,
            requested_token_type: None,
        };
        let request = self.request_without_token(Method::POST, &["oauth", "token"]).form(&form);
        let answer = self.oauth(request).await?;
        self.parsed(&answer)
    }

    /// Revokes a token that a sign-in issued. The client's own token is not used.
    ///
    /// # Errors
    ///
    /// 400 if it is an API token of the organization's list. A token that is not valid is no error.
    pub async fn revoke_token(&self, token: &SecretString) -> Result<(), ClientError> {
        let form =
            TokenRevocationForm { token: token.expose_secret().to_owned(), token_type_hint: None };
        let request = self.request_without_token(Method::POST, &["oauth", "revoke"]).form(&form);
        self.oauth(request).await.map(drop)
    }

    /// Sends a form to an endpoint of OAuth.
    async fn oauth(&self, request: RequestBuilder) -> Result<Answer, ClientError> {
        let response = self.send_with_nonce(request.timeout(TIMEOUT)).await?;
        let answer = self.answer(response).await?;
        if answer.status.is_success() {
            return Ok(answer);
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
