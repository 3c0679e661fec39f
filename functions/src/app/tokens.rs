//! Making and revoking API tokens.

use super::App;
use crate::app::error::AppError;
use canyon_domain::ids::{PrincipalId, RunnerId};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::scoped_role::ScopedRole;
use canyon_identity::bearer;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Created, Deleted};
use canyon_store::page::{Page, PageRequest};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// A token that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct TokenOrder {
    /// What it is for.
    pub(crate) description: String,
    /// What it may do in the whole organization.
    pub(crate) role: Role,
    /// What else it may do in parts of it.
    pub(crate) scoped_roles: Vec<ScopedRole>,
    /// How long it lives; for ever without it.
    pub(crate) life: Option<Duration>,
    /// With the role `agent`: the only runner that its agents serve.
    pub(crate) runner: Option<RunnerId>,
    /// With the role `agent`: the labels that its agents have.
    pub(crate) labels: BTreeMap<String, String>,
}

impl App {
    /// A page of the API tokens.
    pub(crate) async fn tokens(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<TokenRecord>, AppError> {
        Ok(self.table.tokens(by.org, page).await?)
    }

    /// Makes a token, and gives its secret, which is not stored.
    pub(crate) async fn create_token(
        &self,
        by: &Principal,
        order: TokenOrder,
    ) -> Result<(TokenRecord, SecretString), AppError> {
        if let Some(runner) = &order.runner
            && self.table.runner(by.org, runner).await?.is_none()
        {
            return Err(AppError::invalid("runner_id", format!("there is no runner `{runner}`")));
        }
        let now = self.now();
        let id = PrincipalId(self.entropy.id(now));
        let secret = bearer::api_token(self.entropy.as_ref());
        let token = TokenRecord {
            hash: bearer::hash(secret.expose_secret()),
            principal: Principal {
                id,
                org: by.org,
                org_id: by.org_id.clone(),
                role: order.role,
                scoped_roles: order.scoped_roles,
                runner: order.runner,
                operator: false,
                sign_in: SignIn::default(),
            },
            description: order.description,
            created_at: now,
            expires_at: order.life.map(|life| now + life),
            labels: order.labels,
            grant: None,
        };
        let record = self.record(by, "token.create", format!("tokens/{id}"));
        match self.table.create_token(&token, &record).await? {
            Created::Yes => Ok((token, secret)),
            // Both its id and its secret are new random numbers.
            Created::Exists | Created::Missing(_) => Err(AppError::contended(id)),
        }
    }

    /// Revokes a token. Not the one that asks: whoever does so by mistake has nothing left to make
    /// another with.
    pub(crate) async fn delete_token(&self, by: &Principal, id: Uuid) -> Result<(), AppError> {
        if by.id.0 == id {
            return Err(AppError::conflict(format!(
                "token `{id}` is the one that you use; revoke it with another admin's"
            )));
        }
        let record = self.record(by, "token.delete", format!("tokens/{id}"));
        match self.table.delete_token(by.org, id, &record).await? {
            Deleted::Yes => {
                self.authenticated.forget();
                Ok(())
            }
            Deleted::No => Err(AppError::not_found("token", id)),
        }
    }
}
