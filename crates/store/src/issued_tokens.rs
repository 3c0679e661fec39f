//! Tokens that sign-ins issue. They are in no list: they are short-lived, and become invalid with their grant.

use crate::items::{Condition, delete, number, put, to_item};
use crate::organizations::TokenRecord;
use crate::outcome::{Created, Deleted};
use crate::table::TTL;
use crate::{StoreError, Table, audit, keys, known_principals};
use canyon_domain::audit::AuditRecord;
use canyon_domain::known_principal::KnownPrincipal;
use jiff::Timestamp;

impl Table {
    /// Issues a token until `until`, and notes the name of its principal if one is given. Keys: the
    /// token by its secret's hash, audit, the name; on condition that the first does not exist. 4
    /// write units, and 2 with a name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn issue_token(
        &self,
        token: &TokenRecord,
        until: Timestamp,
        name: Option<KnownPrincipal>,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "issue token";
        let mut item = to_item(OPERATION, &keys::token_by_secret(&token.hash), token)?;
        item.insert(TTL.to_owned(), number(until.as_second()));
        let org = token.principal.org;
        let mut items =
            vec![put(self, item, Condition::absent()), audit::record(self, org, record)?];
        items.extend(known_principals::name(self, org, name)?);
        let done = self.transact(OPERATION, &token.principal.id.to_string(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// Revokes an issued token. Keys: the token by its secret's hash, audit; on condition that it
    /// exists. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn revoke_issued_token(
        &self,
        token: &TokenRecord,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::token_by_secret(&token.hash);
        let org = token.principal.org;
        let items =
            vec![delete(self, &key, Condition::present()), audit::record(self, org, record)?];
        let id = token.principal.id.to_string();
        let done = self.transact("revoke issued token", &id, items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
