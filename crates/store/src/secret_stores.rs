//! Secret stores of organizations.

use crate::items::{Condition, delete, from_item, key_item, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::OrgUuid;
use canyon_domain::secret_reference::SecretStoreId;
use canyon_domain::secret_store::{SecretStore, StoreConfiguration};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The most stores of an organization. A token that names the audience of a store costs a read of all of them.
pub const MAX_SECRET_STORES: usize = 100;

#[derive(Serialize, Deserialize)]
struct SecretStoreItem {
    id: SecretStoreId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    configuration: StoreConfiguration,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl From<&SecretStore> for SecretStoreItem {
    fn from(store: &SecretStore) -> Self {
        Self {
            id: store.id.clone(),
            description: store.description.clone(),
            configuration: store.configuration.clone(),
            created_at: store.created_at,
            updated_at: store.updated_at,
            version: store.version,
        }
    }
}

impl From<SecretStoreItem> for SecretStore {
    fn from(item: SecretStoreItem) -> Self {
        let SecretStoreItem { id, description, configuration, created_at, updated_at, version } =
            item;
        Self { id, description, configuration, created_at, updated_at, version }
    }
}

impl Table {
    /// Creates a store. Keys: the store, audit; on condition that its id is free. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_secret_store(
        &self,
        org: OrgUuid,
        store: &SecretStore,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        let saved = self.put_secret_store(org, store, Condition::absent(), record).await?;
        Ok(if saved == Saved::Yes { Created::Yes } else { Created::Exists })
    }

    /// Writes a changed store, on condition that it has the version before. Keys and write units as
    /// in [`Table::create_secret_store`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_secret_store(
        &self,
        org: OrgUuid,
        store: &SecretStore,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let condition = Condition::unchanged(store.created_at, store.version.saturating_sub(1));
        self.put_secret_store(org, store, condition, record).await
    }

    async fn put_secret_store(
        &self,
        org: OrgUuid,
        store: &SecretStore,
        condition: Condition,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "write secret store";
        let key = keys::secret_store(org, &store.id);
        let item = to_item(OPERATION, &key, &SecretStoreItem::from(store))?;
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, store.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// A store. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn secret_store(
        &self,
        org: OrgUuid,
        id: &SecretStoreId,
    ) -> Result<Option<SecretStore>, StoreError> {
        let key = keys::secret_store(org, id);
        let item: Option<SecretStoreItem> = self.read("read secret store", &key).await?;
        Ok(item.map(SecretStore::from))
    }

    /// The stores with these ids (at most 100), in no order; those that do not exist are left out. No request without
    /// ids, else one; one read unit for each id.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn secret_stores_of(
        &self,
        org: OrgUuid,
        ids: impl IntoIterator<Item = &SecretStoreId>,
    ) -> Result<Vec<SecretStore>, StoreError> {
        const OPERATION: &str = "read secret stores";
        let keys: Vec<_> =
            ids.into_iter().map(|id| key_item(&keys::secret_store(org, id))).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let items = self.batch(OPERATION, keys).await?;
        let read = |item| Ok(from_item::<SecretStoreItem>(OPERATION, item)?.into());
        items.into_iter().map(read).collect()
    }

    /// The stores by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn secret_stores(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<SecretStore>, StoreError> {
        let page = self.page::<SecretStoreItem>(partition(org), request, |_| true).await?;
        Ok(page.map(SecretStore::from))
    }

    /// Every store of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn all_secret_stores(&self, org: OrgUuid) -> Result<Vec<SecretStore>, StoreError> {
        let items: Vec<SecretStoreItem> = self.all(partition(org), MAX_SECRET_STORES).await?;
        Ok(items.into_iter().map(SecretStore::from).collect())
    }

    /// Deletes a store, on condition that it has the version that was read. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_secret_store(
        &self,
        org: OrgUuid,
        store: &SecretStore,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::secret_store(org, &store.id);
        let as_read = Condition::unchanged(store.created_at, store.version);
        let items = vec![delete(self, &key, as_read), audit::record(self, org, record)?];
        let done = self.transact("delete secret store", store.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}

fn partition(org: OrgUuid) -> Partition<'static> {
    let pk = keys::secret_stores(org);
    Partition { operation: "list secret stores", pk, prefix: None, descending: false }
}
