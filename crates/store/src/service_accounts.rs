//! Service accounts.

use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys, known_principals};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{OrgUuid, ServiceAccountId};
use canyon_domain::known_principal::KnownPrincipal;
use canyon_domain::service_account::ServiceAccount;

impl Table {
    /// Creates a service account. Keys: the service account, its name, audit; on condition that its
    /// id is free. 6 write units, and 2 more for each further KB of its policies.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_service_account(
        &self,
        org: OrgUuid,
        account: &ServiceAccount,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create service account";
        let item = to_item(OPERATION, &keys::service_account(org, &account.id), account)?;
        let mut items =
            vec![put(self, item, Condition::absent()), audit::record(self, org, record)?];
        items.extend(known_principals::name(self, org, name_of(account))?);
        let done = self.transact(OPERATION, account.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// A service account. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn service_account(
        &self,
        org: OrgUuid,
        id: &ServiceAccountId,
    ) -> Result<Option<ServiceAccount>, StoreError> {
        self.read("read service account", &keys::service_account(org, id)).await
    }

    /// The service accounts by id. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn service_accounts(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<ServiceAccount>, StoreError> {
        let partition = Partition {
            operation: "list service accounts",
            pk: keys::service_accounts(org),
            prefix: None,
            descending: false,
        };
        self.page(partition, request, |_| true).await
    }

    /// Changes a service account to `after`, on condition that it still has the version `before`.
    /// Keys and write units as in [`Table::create_service_account`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_service_account(
        &self,
        org: OrgUuid,
        before: u64,
        after: &ServiceAccount,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update service account";
        let item = to_item(OPERATION, &keys::service_account(org, &after.id), after)?;
        let as_read = Condition::unchanged(after.created_at, before);
        let mut items = vec![put(self, item, as_read), audit::record(self, org, record)?];
        items.extend(known_principals::name(self, org, name_of(after))?);
        let done = self.transact(OPERATION, after.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes a service account, on condition that it has the version that was read. Its tokens
    /// become invalid. Keys as in [`Table::create_service_account`]. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_service_account(
        &self,
        org: OrgUuid,
        account: &ServiceAccount,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::service_account(org, &account.id);
        let items = vec![
            delete(self, &key, Condition::unchanged(account.created_at, account.version)),
            audit::record(self, org, record)?,
        ];
        let done = self.transact("delete service account", account.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}

/// Its id: service accounts of earlier versions get their name with their next change.
fn name_of(account: &ServiceAccount) -> Option<KnownPrincipal> {
    KnownPrincipal::new(account.principal(), account.id.as_str())
}
