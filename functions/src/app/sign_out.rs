//! Revokes tokens that sign-ins issued.

use super::App;
use canyon_domain::grant::GrantedBy;
use canyon_identity::bearer::{self, Presented};
use canyon_store::StoreError;
use canyon_store::outcome::Deleted;
use secrecy::{ExposeSecret, SecretString};

/// What became of a token that its holder wants to revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignOut {
    /// It is not valid, or no more.
    Done,
    /// It is a token of the organization's list, which only administrators delete.
    Listed,
}

impl App {
    /// Revokes a token of the organization with this name. To show it proves the right to.
    pub(crate) async fn sign_out(
        &self,
        org: &str,
        token: &SecretString,
    ) -> Result<SignOut, StoreError> {
        let Some(Presented::Api(hash)) = bearer::parse(token.expose_secret()) else {
            return Ok(SignOut::Done);
        };
        let found = self.table.token_by_secret(&hash).await?;
        let Some(token) = found.filter(|token| token.principal.is_of(org)) else {
            return Ok(SignOut::Done);
        };
        let (action, subject) = match token.grant.as_ref().map(|grant| &grant.by) {
            None => return Ok(SignOut::Listed),
            Some(GrantedBy::ServiceAccount(id)) => {
                ("service_account.sign_out", format!("service-accounts/{id}"))
            }
            Some(GrantedBy::IdentityProvider(id)) => {
                ("person.sign_out", format!("identity-providers/{id}"))
            }
        };
        let record = self.record(&token.principal, action, subject);
        if self.table.revoke_issued_token(&token, &record).await? == Deleted::Yes {
            self.authenticated.forget();
        }
        Ok(SignOut::Done)
    }
}
