//! Sets of variables: one item for each scope. An item goes with the object that its scope names.

use crate::items::{Condition, from_item, key_item, put, to_item};
use crate::keys::Key;
use crate::outcome::Saved;
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::{ConditionCheck, Delete, TransactWriteItem};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{EnvTypeId, OrgUuid};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::{Variable, VariableKey, VariableSet};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct VariableSetItem {
    scope: VariableScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env_type: Option<EnvTypeId>,
    /// Pairs of key and variable as JSON text: an attribute nests at most 32 levels, and a value may have more.
    variables: String,
    /// The git credentials as JSON text, by address. Items of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git_credentials: Option<String>,
    /// Former values of its secrets as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    former_secrets: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl VariableSetItem {
    fn of(set: &VariableSet) -> Result<Self, serde_json::Error> {
        let pairs: Vec<(&VariableKey, &Variable)> = set.variables.iter().collect();
        Ok(Self {
            scope: set.scope.clone(),
            env_type: set.env_type.clone(),
            variables: serde_json::to_string(&pairs)?,
            git_credentials: (!set.git_credentials.is_empty())
                .then(|| serde_json::to_string(&set.git_credentials))
                .transpose()?,
            former_secrets: (!set.former_secrets.is_empty())
                .then(|| serde_json::to_string(&set.former_secrets))
                .transpose()?,
            created_at: set.created_at,
            updated_at: set.updated_at,
            version: set.version,
        })
    }

    pub(crate) fn read(self) -> Result<VariableSet, StoreError> {
        let corrupt =
            |source| StoreError::corrupt("read variables", self.scope.to_string(), source);
        let pairs: Vec<(VariableKey, Variable)> =
            serde_json::from_str(&self.variables).map_err(corrupt)?;
        let credentials = self.git_credentials.as_deref().map(serde_json::from_str).transpose();
        let git_credentials = credentials.map_err(corrupt)?.unwrap_or_default();
        let former = self.former_secrets.as_deref().map(serde_json::from_str).transpose();
        let former_secrets = former.map_err(corrupt)?.unwrap_or_default();
        Ok(VariableSet {
            scope: self.scope,
            env_type: self.env_type,
            variables: pairs.into_iter().collect(),
            git_credentials,
            former_secrets,
            created_at: self.created_at,
            updated_at: self.updated_at,
            version: self.version,
        })
    }
}

/// The object that a scope names, which must exist as it was read when its set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeOwner {
    /// When it was created.
    pub created_at: Timestamp,
}

impl Table {
    /// The set of a scope. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn variable_set(
        &self,
        org: OrgUuid,
        scope: &VariableScope,
    ) -> Result<Option<VariableSet>, StoreError> {
        let key = keys::variable_set(org, scope);
        let item: Option<VariableSetItem> = self.read("read variables", &key).await?;
        item.map(VariableSetItem::read).transpose()
    }

    /// The sets of these scopes (at most 100), in no order; scopes without a set are left out. One request; one
    /// read unit for each 4 KB of a set, and one for each scope without a set.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn variable_sets_of(
        &self,
        org: OrgUuid,
        scopes: &[VariableScope],
    ) -> Result<Vec<VariableSet>, StoreError> {
        const OPERATION: &str = "read variables";
        let keys = scopes.iter().map(|scope| key_item(&keys::variable_set(org, scope))).collect();
        let items = self.batch(OPERATION, keys).await?;
        let read = |item| from_item::<VariableSetItem>(OPERATION, item)?.read();
        items.into_iter().map(read).collect()
    }

    /// The sets of an organization by scope, filtered by `keep`. One read unit for each 4 KB read, also for what
    /// `keep` leaves out.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn variable_sets(
        &self,
        org: OrgUuid,
        request: &PageRequest,
        keep: impl Fn(&VariableScope, Option<&EnvTypeId>) -> bool,
    ) -> Result<Page<VariableSet>, StoreError> {
        let pk = keys::variable_sets(org);
        let partition =
            Partition { operation: "list variables", pk, prefix: None, descending: false };
        let keep = |item: &VariableSetItem| keep(&item.scope, item.env_type.as_ref());
        let page = self.page(partition, request, keep).await?;
        let items = page.items.into_iter().map(VariableSetItem::read).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Writes a set, on condition that it has the version before, or does not exist if this is its first, and that
    /// `owner`, if it is given, exists. Keys: the set, audit. Without an owner 2 write units for each KB of the set, and
    /// 2 for the record; with one 2 more.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_variable_set(
        &self,
        org: OrgUuid,
        set: &VariableSet,
        owner: Option<ScopeOwner>,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update variables";
        let key = keys::variable_set(org, &set.scope);
        let item = VariableSetItem::of(set)
            .map_err(|source| StoreError::corrupt(OPERATION, set.scope.to_string(), source))?;
        let condition = match set.version.saturating_sub(1) {
            0 => Condition::absent(),
            before => Condition::unchanged(set.created_at, before),
        };
        let mut items = vec![put(self, to_item(OPERATION, &key, &item)?, condition)];
        if let (Some(owner), Some(key)) = (owner, keys::owner_of_variables(org, &set.scope)) {
            items.push(self.owner_exists(&key, owner));
        }
        items.push(audit::record(self, org, record)?);
        let done = self.transact(OPERATION, &key.sk, items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Part of a transaction: requires that the object at `key` is the one that was read.
    fn owner_exists(&self, key: &Key, owner: ScopeOwner) -> TransactWriteItem {
        let condition = Condition::created(owner.created_at);
        let check = ConditionCheck::builder()
            .table_name(self.name())
            .set_key(Some(key_item(key)))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(Some(condition.values))
            .build();
        TransactWriteItem::builder().set_condition_check(check.ok()).build()
    }

    /// Part of a transaction: deletes the set of a scope, if there is one.
    pub(crate) fn variable_set_removal(
        &self,
        org: OrgUuid,
        scope: &VariableScope,
    ) -> TransactWriteItem {
        let key = key_item(&keys::variable_set(org, scope));
        let delete = Delete::builder().table_name(self.name()).set_key(Some(key)).build();
        TransactWriteItem::builder().set_delete(delete.ok()).build()
    }
}
