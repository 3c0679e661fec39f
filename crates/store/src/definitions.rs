//! Resource definitions of organizations.

use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::definition::{Definition, DefinitionId, StoredDefinition};
use canyon_domain::ids::OrgUuid;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The most definitions of an organization. The deployment of a resource by its definition costs a read of all of them.
pub const MAX_DEFINITIONS: usize = 500;

#[derive(Serialize, Deserialize)]
struct DefinitionItem {
    /// As JSON: the inputs of a driver may have any form.
    definition: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl TryFrom<DefinitionItem> for StoredDefinition {
    type Error = serde_json::Error;

    fn try_from(item: DefinitionItem) -> Result<Self, Self::Error> {
        let DefinitionItem { definition, created_at, updated_at, version } = item;
        let definition: Definition = serde_json::from_str(&definition)?;
        Ok(Self { definition, created_at, updated_at, version })
    }
}

impl Table {
    /// Creates a definition. Keys: the definition, audit; on condition that its id is free. 2 write units, and 2 for each KB of
    /// the definition.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_definition(
        &self,
        org: OrgUuid,
        definition: &StoredDefinition,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        let saved = self.put_definition(org, definition, Condition::absent(), record).await?;
        Ok(if saved == Saved::Yes { Created::Yes } else { Created::Exists })
    }

    /// Writes a changed definition, on condition that it has the version before. Keys and write units as
    /// in [`Table::create_definition`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_definition(
        &self,
        org: OrgUuid,
        definition: &StoredDefinition,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let before = definition.version.saturating_sub(1);
        let condition = Condition::unchanged(definition.created_at, before);
        self.put_definition(org, definition, condition, record).await
    }

    async fn put_definition(
        &self,
        org: OrgUuid,
        of: &StoredDefinition,
        condition: Condition,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "write resource definition";
        let StoredDefinition { definition, created_at, updated_at, version } = of;
        let key = keys::definition(org, &definition.id);
        let text = serde_json::json!(definition).to_string();
        let (created_at, updated_at, version) = (*created_at, *updated_at, *version);
        let item = DefinitionItem { definition: text, created_at, updated_at, version };
        let item = to_item(OPERATION, &key, &item)?;
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, definition.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// A definition. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn resource_definition(
        &self,
        org: OrgUuid,
        id: &DefinitionId,
    ) -> Result<Option<StoredDefinition>, StoreError> {
        const OPERATION: &str = "read resource definition";
        let key = keys::definition(org, id);
        let item: Option<DefinitionItem> = self.read(OPERATION, &key).await?;
        item.map(|item| read(OPERATION, item)).transpose()
    }

    /// The definitions by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn resource_definitions(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<StoredDefinition>, StoreError> {
        let page = self.page::<DefinitionItem>(partition(org), request, |_| true).await?;
        let Page { items, next } = page;
        let items: Result<_, _> = items.into_iter().map(|item| read(LIST, item)).collect();
        Ok(Page { items: items?, next })
    }

    /// Every definition of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn all_resource_definitions(
        &self,
        org: OrgUuid,
    ) -> Result<Vec<Definition>, StoreError> {
        let items: Vec<DefinitionItem> = self.all(partition(org), MAX_DEFINITIONS).await?;
        items.into_iter().map(|item| Ok(read(LIST, item)?.definition)).collect()
    }

    /// Deletes a definition, on condition that it has the version that was read. 4 write units, and one for each KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_definition(
        &self,
        org: OrgUuid,
        of: &StoredDefinition,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::definition(org, &of.definition.id);
        let as_read = Condition::unchanged(of.created_at, of.version);
        let items = vec![delete(self, &key, as_read), audit::record(self, org, record)?];
        let id = of.definition.id.as_str();
        let done = self.transact("delete resource definition", id, items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}

const LIST: &str = "list resource definitions";

fn read(operation: &'static str, item: DefinitionItem) -> Result<StoredDefinition, StoreError> {
    let id = item.definition.chars().take(40).collect::<String>();
    item.try_into().map_err(|error: serde_json::Error| StoreError::corrupt(operation, id, error))
}

fn partition(org: OrgUuid) -> Partition<'static> {
    Partition { operation: LIST, pk: keys::definitions(org), prefix: None, descending: false }
}
