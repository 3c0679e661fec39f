//! Creates and revokes API tokens.

use super::App;
use crate::app::error::AppError;
use canyon_domain::ids::{PrincipalId, RunnerId};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::scoped_role::{ScopedRole, granted};
use canyon_identity::bearer;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Created, Deleted};
use canyon_store::page::{Page, PageRequest};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// A request to create a token, parsed.
#[derive(Clone, Debug)]
pub(crate) struct TokenRequest {
    /// Its description.
    pub(crate) description: String,
    /// Its role in the whole organization.
    pub(crate) role: Role,
    /// Its roles in parts of the organization.
    pub(crate) scoped_roles: Vec<ScopedRole>,
    /// Its lifetime; `None` for a token that does not expire.
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

    /// Creates a token, and returns its secret, which is not stored.
    pub(crate) async fn create_token(
        &self,
        by: &Principal,
        order: TokenRequest,
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
        let mut record = self.record(by, "token.create", format!("tokens/{id}"));
        let Principal { role, scoped_roles, runner, .. } = &token.principal;
        record.details = granted(*role, scoped_roles);
        record.details.extend(runner.iter().map(|runner| format!("runner: {runner}")));
        match self.table.create_token(&token, &record).await? {
            Created::Yes => Ok((token, secret)),
            // Its id and its secret are new random numbers, so both results are impossible.
            Created::Exists | Created::Missing(_) => Err(AppError::contended(id)),
        }
    }

    /// Revokes a token. The caller's own token is refused: after a mistake, the caller would have no token left to
    /// create another one.
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
