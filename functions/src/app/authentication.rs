//! The principals of API tokens.

use super::App;
use canyon_domain::attempt::SecretHash;
use canyon_domain::grant::{Grant, GrantedBy};
use canyon_domain::ids::OrgUuid;
use canyon_domain::principal::{Principal, SignIn};
use canyon_identity::bearer;
use canyon_store::StoreError;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// How long a valid token is trusted without a new read. It bounds how long a revoked token still works.
const TRUST: Duration = Duration::from_secs(3);
/// The most remembered tokens. Beyond that, all are forgotten and read again.
const MAX_REMEMBERED: usize = 10_000;

/// A cache of recently valid tokens, by their hash. Invalid tokens are not cached: a caller cannot fill the memory with
/// them, and a new token works at once.
#[derive(Clone, Debug, Default)]
pub struct RecentTokens(Arc<RwLock<HashMap<String, Remembered>>>);

#[derive(Clone, Debug)]
struct Remembered {
    principal: Arc<Principal>,
    until: Timestamp,
}

impl RecentTokens {
    fn get(&self, hash: &SecretHash, now: Timestamp) -> Option<Arc<Principal>> {
        let known = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.get(&hash.0).filter(|entry| now < entry.until).map(|entry| entry.principal.clone())
    }

    fn remember(&self, hash: SecretHash, principal: Arc<Principal>, until: Timestamp) {
        let mut known = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(hash.0, Remembered { principal, until });
    }

    /// Forgets every token, after one of them was revoked here.
    pub(crate) fn forget(&self) {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }
}

impl App {
    /// The principal of the token with this hash; `None` if the token does not exist, has expired, or was
    /// issued by a service account or an identity provider that has changed since. The operator's token is not in the
    /// table: its hash is a setting.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the table cannot be read.
    pub async fn authenticate(
        &self,
        hash: SecretHash,
    ) -> Result<Option<Arc<Principal>>, StoreError> {
        let now = self.now();
        if let Some(principal) = self.authenticated.get(&hash, now) {
            return Ok(Some(principal));
        }
        let Some(token) = self.table.token_by_secret(&hash).await? else {
            let operator =
                self.operator.as_ref().is_some_and(|known| bearer::is_same(known, &hash));
            return Ok(operator.then(|| Arc::new(Principal::operator())));
        };
        if token.has_expired(now) {
            return Ok(None);
        }
        if let Some(grant) = &token.grant
            && !self.is_current(token.principal.org, grant).await?
        {
            return Ok(None);
        }
        let by = token.grant.map(|grant| grant.by);
        let sign_in = SignIn { until: token.expires_at, by, ..token.principal.sign_in };
        let principal = Arc::new(Principal { sign_in, ..token.principal });
        let until = token.expires_at.map_or(now + TRUST, |end| end.min(now + TRUST));
        self.authenticated.remember(hash, principal.clone(), until);
        Ok(Some(principal))
    }

    /// Whether what a token was issued by is still in the state of then.
    async fn is_current(&self, org: OrgUuid, grant: &Grant) -> Result<bool, StoreError> {
        let now = match &grant.by {
            GrantedBy::ServiceAccount(id) => {
                self.table.service_account(org, id).await?.map(|account| account.grant())
            }
            GrantedBy::IdentityProvider(id) => {
                self.table.identity_provider(org, id).await?.map(|provider| provider.grant())
            }
        };
        Ok(now.as_ref() == Some(grant))
    }
}
