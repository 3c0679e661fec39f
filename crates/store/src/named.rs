//! Named things that rules and environments refer to.
//!
//! Each counts in `uses` how many rules and environments refer to it, in the transaction that
//! creates or deletes those. So no thing is deleted while something refers to it. The references
//! themselves are looked up only for the message of a refusal.

use crate::items::{Condition, delete, put, to_item};
use crate::keys::Key;
use crate::outcome::{Created, Deleted};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::OrgUuid;
use serde::{Serialize, de::DeserializeOwned};

/// A named thing.
pub(crate) trait Named: Serialize + DeserializeOwned {
    const KIND: Kind;
}

/// Operation names for the messages about a kind of thing.
pub(crate) struct Kind {
    pub(crate) create: &'static str,
    pub(crate) read: &'static str,
    pub(crate) list: &'static str,
    pub(crate) delete: &'static str,
}

macro_rules! named {
    ($type:ty, $name:literal) => {
        impl crate::named::Named for $type {
            const KIND: crate::named::Kind = crate::named::Kind {
                create: concat!("create ", $name),
                read: concat!("read ", $name),
                list: concat!("list ", $name, "s"),
                delete: concat!("delete ", $name),
            };
        }
    };
}
pub(crate) use named;

impl Table {
    pub(crate) async fn create_named<T: Named>(
        &self,
        org: OrgUuid,
        key: &Key,
        value: &T,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        let items = vec![
            put(self, to_item(T::KIND.create, key, value)?, Condition::absent()),
            audit::record(self, org, record)?,
        ];
        let done = self.transact(T::KIND.create, &key.sk, items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    pub(crate) async fn list_named<T: Named>(
        &self,
        pk: String,
        request: &PageRequest,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Page<T>, StoreError> {
        let operation = T::KIND.list;
        self.page(Partition { operation, pk, prefix: None, descending: false }, request, keep).await
    }

    /// Deletes an object that nothing refers to, in a transaction with `dependent`, which deletes what belongs to it.
    pub(crate) async fn delete_named<T: Named>(
        &self,
        org: OrgUuid,
        key: &Key,
        dependent: Vec<TransactWriteItem>,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let mut items = vec![delete(self, key, Condition::unused())];
        items.extend(dependent);
        items.push(audit::record(self, org, record)?);
        let done = self.transact(T::KIND.delete, &key.sk, items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
