//! Accounts of organizations.

use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::account::{Account, AccountCredentials, AccountId};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::OrgUuid;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The most accounts of an organization. A new one costs a read of all of them.
pub const MAX_ACCOUNTS: usize = 100;

#[derive(Serialize, Deserialize)]
struct AccountItem {
    id: AccountId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    credentials: AccountCredentials,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl From<&Account> for AccountItem {
    fn from(account: &Account) -> Self {
        Self {
            id: account.id.clone(),
            name: account.name.clone(),
            credentials: account.credentials.clone(),
            created_at: account.created_at,
            updated_at: account.updated_at,
            version: account.version,
        }
    }
}

impl From<AccountItem> for Account {
    fn from(item: AccountItem) -> Self {
        let AccountItem { id, name, credentials, created_at, updated_at, version } = item;
        Self { id, name, credentials, created_at, updated_at, version }
    }
}

impl Table {
    /// Creates an account. Keys: the account, audit; on condition that its id is free. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_account(
        &self,
        org: OrgUuid,
        account: &Account,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        let saved = self.put_account(org, account, Condition::absent(), record).await?;
        Ok(if saved == Saved::Yes { Created::Yes } else { Created::Exists })
    }

    /// Writes a changed account, on condition that it has the version before. Keys and write units as
    /// in [`Table::create_account`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_account(
        &self,
        org: OrgUuid,
        account: &Account,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let condition = Condition::unchanged(account.created_at, account.version.saturating_sub(1));
        self.put_account(org, account, condition, record).await
    }

    async fn put_account(
        &self,
        org: OrgUuid,
        account: &Account,
        condition: Condition,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "write account";
        let key = keys::account(org, &account.id);
        let item = to_item(OPERATION, &key, &AccountItem::from(account))?;
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, account.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// An account. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn account(
        &self,
        org: OrgUuid,
        id: &AccountId,
    ) -> Result<Option<Account>, StoreError> {
        let key = keys::account(org, id);
        let item: Option<AccountItem> = self.read("read account", &key).await?;
        Ok(item.map(Account::from))
    }

    /// The accounts by id. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn accounts(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<Account>, StoreError> {
        let page = self.page::<AccountItem>(partition(org), request, |_| true).await?;
        Ok(page.map(Account::from))
    }

    /// Every account of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn all_accounts(&self, org: OrgUuid) -> Result<Vec<Account>, StoreError> {
        let items: Vec<AccountItem> = self.all(partition(org), MAX_ACCOUNTS).await?;
        Ok(items.into_iter().map(Account::from).collect())
    }

    /// Deletes an account, on condition that it has the version that was read. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_account(
        &self,
        org: OrgUuid,
        account: &Account,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::account(org, &account.id);
        let as_read = Condition::unchanged(account.created_at, account.version);
        let items = vec![delete(self, &key, as_read), audit::record(self, org, record)?];
        let done = self.transact("delete account", account.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}

fn partition(org: OrgUuid) -> Partition<'static> {
    let pk = keys::accounts(org);
    Partition { operation: "list accounts", pk, prefix: None, descending: false }
}
