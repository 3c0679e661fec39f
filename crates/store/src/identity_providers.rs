//! Identity providers.

use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::identity_provider::IdentityProvider;
use canyon_domain::ids::{IdentityProviderId, OrgUuid};

impl Table {
    /// Creates an identity provider. Keys: the identity provider, audit; on condition that its id is
    /// free. 4 write units, and 2 more for each further KB of its keys and rules.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_identity_provider(
        &self,
        org: OrgUuid,
        provider: &IdentityProvider,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create identity provider";
        let item = to_item(OPERATION, &keys::identity_provider(org, &provider.id), provider)?;
        let items = vec![put(self, item, Condition::absent()), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, provider.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// An identity provider. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn identity_provider(
        &self,
        org: OrgUuid,
        id: &IdentityProviderId,
    ) -> Result<Option<IdentityProvider>, StoreError> {
        self.read("read identity provider", &keys::identity_provider(org, id)).await
    }

    /// The identity providers by id. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn identity_providers(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<IdentityProvider>, StoreError> {
        let partition = Partition {
            operation: "list identity providers",
            pk: keys::identity_providers(org),
            prefix: None,
            descending: false,
        };
        self.page(partition, request, |_| true).await
    }

    /// Changes an identity provider to `after`, on condition that it still has the version `before`.
    /// Keys and write units as in [`Table::create_identity_provider`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_identity_provider(
        &self,
        org: OrgUuid,
        before: u64,
        after: &IdentityProvider,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update identity provider";
        let item = to_item(OPERATION, &keys::identity_provider(org, &after.id), after)?;
        let as_read = Condition::unchanged(after.created_at, before);
        let items = vec![put(self, item, as_read), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, after.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes an identity provider, on condition that it has the version that was read. The tokens of its people
    /// become invalid. Keys as in [`Table::create_identity_provider`]. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_identity_provider(
        &self,
        org: OrgUuid,
        provider: &IdentityProvider,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::identity_provider(org, &provider.id);
        let items = vec![
            delete(self, &key, Condition::unchanged(provider.created_at, provider.version)),
            audit::record(self, org, record)?,
        ];
        let done = self.transact("delete identity provider", provider.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
