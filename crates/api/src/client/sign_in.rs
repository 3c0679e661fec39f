//! What a person reads before and after signing in.

use super::{Client, ClientError};
use crate::caller::Caller;
use crate::identity_provider::{SignInChoice, SignInChoices};
use reqwest::Method;

impl Client {
    /// The identity providers by which people sign in to the organization. None if the organization does not exist. It
    /// needs no token.
    ///
    /// # Errors
    ///
    /// 404 from a server of an earlier version, which has no people.
    pub async fn sign_in_choices(&self) -> Result<Vec<SignInChoice>, ClientError> {
        let request = self.request_without_token(Method::GET, &["oauth", "providers"]);
        let choices: SignInChoices = self.read(request).await?;
        Ok(choices.items)
    }

    /// Who the caller is, and what it may do.
    ///
    /// # Errors
    ///
    /// 401 if the token is not valid.
    pub async fn caller(&self) -> Result<Caller, ClientError> {
        self.read(self.request(Method::GET, &["caller"])).await
    }
}
