//! Event sources: which events may deploy, and the record of rejected events.

use crate::items::{Condition, delete, key_item, number, put, text, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::table::TTL;
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::event_source::{
    AccountId, EventSource, EventSourceId, RuleRef, Scope, SourceName,
};
use canyon_domain::ids::{OrgUuid, PrincipalId, ProjectId};
use canyon_domain::principal::Role;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most event sources of an organization. Canyon reads all of them for each event that names the
/// organization.
pub const MAX_EVENT_SOURCES: usize = 100;

#[derive(Serialize, Deserialize)]
struct SourceItem {
    id: EventSourceId,
    uuid: Uuid,
    account: AccountId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<SourceName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<RuleRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<ProjectId>,
    role: Role,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl From<&EventSource> for SourceItem {
    fn from(of: &EventSource) -> Self {
        let Scope { account, source, rule, project } = of.scope.clone();
        Self {
            id: of.id.clone(),
            uuid: of.uuid,
            account,
            source,
            rule,
            project,
            role: of.role,
            created_at: of.created_at,
            updated_at: of.updated_at,
            version: of.version,
        }
    }
}

impl From<SourceItem> for EventSource {
    fn from(item: SourceItem) -> Self {
        let SourceItem { account, source, rule, project, .. } = item;
        Self {
            id: item.id,
            uuid: item.uuid,
            scope: Scope { account, source, rule, project },
            role: item.role,
            created_at: item.created_at,
            updated_at: item.updated_at,
            version: item.version,
        }
    }
}

fn as_read(source: &EventSource) -> Condition {
    Condition::unchanged(source.created_at, source.version)
}

impl Table {
    /// Creates an event source. Keys: the event source, the guard of its scope, audit; on condition
    /// that its id and its scope are free. 6 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_event_source(
        &self,
        org: OrgUuid,
        source: &EventSource,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create event source";
        let items = vec![
            put(self, item(OPERATION, org, source)?, Condition::absent()),
            self.guard(org, source),
            audit::record(self, org, record)?,
        ];
        let done = self.transact(OPERATION, source.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    fn guard(&self, org: OrgUuid, source: &EventSource) -> TransactWriteItem {
        let mut guard = key_item(&keys::event_scope(org, &source.scope));
        guard.insert("event_source".to_owned(), text(source.id.as_str()));
        put(self, guard, Condition::absent())
    }

    /// An event source. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn event_source(
        &self,
        org: OrgUuid,
        id: &EventSourceId,
    ) -> Result<Option<EventSource>, StoreError> {
        let found: Option<SourceItem> =
            self.read("read event source", &keys::event_source(org, id)).await?;
        Ok(found.map(EventSource::from))
    }

    /// The event sources by id. One read unit for each 4 KB: about 15 event sources.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn event_sources(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<EventSource>, StoreError> {
        let partition = Partition {
            operation: "list event sources",
            pk: keys::event_sources(org),
            prefix: None,
            descending: false,
        };
        let page = self.page::<SourceItem>(partition, request, |_| true).await?;
        Ok(page.map(EventSource::from))
    }

    /// Every event source, read from the table at each call and never cached, so that a change
    /// applies at once. Up to 8 read units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn all_event_sources(&self, org: OrgUuid) -> Result<Vec<EventSource>, StoreError> {
        let mut sources = Vec::new();
        let mut request = PageRequest { limit: 100, after: None };
        loop {
            let page = self.event_sources(org, &request).await?;
            sources.extend(page.items);
            match page.next {
                Some(next) => request.after = Some(next),
                None => return Ok(sources),
            }
        }
    }

    /// Changes an event source from `before` to `after`, which has the next version. Keys: the
    /// event source, the guards of both scopes if they differ, audit; on condition that its version
    /// is that of `before` and the new scope is free. 4 to 8 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_event_source(
        &self,
        org: OrgUuid,
        before: &EventSource,
        after: &EventSource,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update event source";
        let mut items = vec![
            put(self, item(OPERATION, org, after)?, as_read(before)),
            audit::record(self, org, record)?,
        ];
        if before.scope != after.scope {
            let former = keys::event_scope(org, &before.scope);
            items.push(delete(self, &former, Condition::present()));
            items.push(self.guard(org, after));
        }
        let done = self.transact(OPERATION, after.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes an event source. Keys as in [`Table::create_event_source`]; on condition that it has
    /// the version that was read. 6 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_event_source(
        &self,
        org: OrgUuid,
        source: &EventSource,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::event_source(org, &source.id);
        let items = vec![
            delete(self, &key, as_read(source)),
            delete(self, &keys::event_scope(org, &source.scope), Condition::present()),
            audit::record(self, org, record)?,
        ];
        let done = self.transact("delete event source", source.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// Records that the event `event` was rejected: once until `expires_at`, however often
    /// EventBridge delivers it. Keys: the guard of the event, audit; on condition that the guard
    /// does not exist. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn record_rejection(
        &self,
        org: OrgUuid,
        event: &str,
        record: &AuditRecord,
        expires_at: Timestamp,
    ) -> Result<Created, StoreError> {
        // Keys of callers are theirs; this one is Canyon's own.
        let canyon = PrincipalId(Uuid::nil()).into();
        let key = keys::idempotency(org, &canyon, &format!("rejected:{event}"));
        let mut guard = key_item(&key);
        guard.insert("record".to_owned(), text(record.id.to_string()));
        guard.insert(TTL.to_owned(), number(expires_at.as_second()));
        let items = vec![put(self, guard, Condition::absent()), audit::record(self, org, record)?];
        let done = self.transact("record rejection", event, items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }
}

fn item(
    operation: &'static str,
    org: OrgUuid,
    source: &EventSource,
) -> Result<crate::conditional::Item, StoreError> {
    to_item(operation, &keys::event_source(org, &source.id), &SourceItem::from(source))
}
