//! Limits on how many attempts run at once, and their slots: one item for each slot that is held.

use crate::deployments::DeploymentChange;
use crate::items::{Condition, delete, put, text, to_item};
use crate::outcome::{Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::concurrency::{
    ConcurrencyLimit, ConcurrencySlot, HeldSlot, LimitScope, SlotHolder,
};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use serde::{Deserialize, Serialize};

/// Most limits of an organization that are checked for a launch.
const MAX_LIMITS: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct SlotItem {
    number: u32,
    deployment: DeploymentId,
    attempt: u32,
    /// The holder as one string, for conditions.
    held_by: String,
    /// See [`HeldSlot::of_check`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_check: bool,
}

fn held_by(holder: SlotHolder) -> String {
    format!("{}#{}", holder.deployment, holder.attempt)
}

/// A slot that a new attempt takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotClaim {
    /// The slot.
    pub slot: ConcurrencySlot,
    /// Its former holder, if that attempt is known to be over.
    pub former_holder: Option<SlotHolder>,
}

fn partition_of_limits(org: OrgUuid) -> Partition<'static> {
    Partition {
        operation: "list concurrency limits",
        pk: keys::limits(org),
        prefix: None,
        descending: false,
    }
}

/// Condition: the slot is free, or `holder` holds it.
fn free_or_held_by(holder: SlotHolder) -> Condition {
    let mut condition = Condition::absent();
    condition.expression.push_str(" OR held_by = :holder");
    condition.values.insert(":holder".to_owned(), text(held_by(holder)));
    condition
}

impl Table {
    /// Creates or replaces a limit. Keys: the limit, audit. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn set_limit(
        &self,
        org: OrgUuid,
        limit: &ConcurrencyLimit,
        record: &AuditRecord,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "set concurrency limit";
        let item = to_item(OPERATION, &keys::limit(org, &limit.scope), limit)?;
        let mut anything = Condition::absent();
        anything.expression.push_str(" OR attribute_exists(pk)");
        let items = vec![put(self, item, anything), audit::record(self, org, record)?];
        let thing = limit.scope.to_string();
        if self.transact(OPERATION, &thing, items).await?.is_ok() {
            return Ok(());
        }
        let source = "its condition, which always holds, was not met".into();
        Err(StoreError::Backend { operation: OPERATION, thing, source })
    }

    /// Deletes a limit. An attempt that holds one of its slots still releases it at its end. 4
    /// write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_limit(
        &self,
        org: OrgUuid,
        scope: &LimitScope,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::limit(org, scope);
        let items =
            vec![delete(self, &key, Condition::present()), audit::record(self, org, record)?];
        let done = self.transact("delete concurrency limit", &scope.to_string(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// A limit. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn limit(
        &self,
        org: OrgUuid,
        scope: &LimitScope,
    ) -> Result<Option<ConcurrencyLimit>, StoreError> {
        self.read("read concurrency limit", &keys::limit(org, scope)).await
    }

    /// All limits of an organization, a page at a time. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn limits(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<ConcurrencyLimit>, StoreError> {
        self.page(partition_of_limits(org), request, |_| true).await
    }

    /// Every limit of an organization, at most 1,000. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn all_limits(&self, org: OrgUuid) -> Result<Vec<ConcurrencyLimit>, StoreError> {
        self.all(partition_of_limits(org), MAX_LIMITS).await
    }

    /// The slots of a limit that are held. One read unit for each 4 KB: about 20 slots.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn held_slots(
        &self,
        org: OrgUuid,
        scope: &LimitScope,
    ) -> Result<Vec<HeldSlot>, StoreError> {
        let partition = Partition {
            operation: "list held slots",
            pk: keys::slots(org, scope),
            prefix: None,
            descending: false,
        };
        let slot = |item: SlotItem| HeldSlot {
            number: item.number,
            holder: SlotHolder { deployment: item.deployment, attempt: item.attempt },
            of_check: item.of_check,
        };
        // Without a maximum: a limit bounds its own slots.
        let held = self.all::<SlotItem>(partition, usize::MAX).await?;
        Ok(held.into_iter().map(slot).collect())
    }

    /// Writes a new attempt like [`Table::change_deployment`] and takes its slots in the same
    /// transaction; on condition that each slot is free or still held by `former_holder`. 2 write
    /// units more for each slot.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn launch_deployment(
        &self,
        org: OrgUuid,
        change: &DeploymentChange<'_>,
        claims: &[SlotClaim],
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "launch deployment";
        let deployment = change.deployment;
        let mut items = self.change_items(org, change, OPERATION)?;
        let number = deployment.open_attempt().map_or(0, |attempt| attempt.number);
        let holder = SlotHolder { deployment: deployment.id, attempt: number };
        for taking in claims {
            let key = keys::slot(org, &taking.slot);
            let item = SlotItem {
                number: taking.slot.number,
                deployment: holder.deployment,
                attempt: holder.attempt,
                held_by: held_by(holder),
                of_check: !deployment.mode.takes_turn(),
            };
            let condition = taking.former_holder.map_or_else(Condition::absent, free_or_held_by);
            items.push(put(self, to_item(OPERATION, &key, &item)?, condition));
        }
        let done = self.transact(OPERATION, &deployment.id.to_string(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletions that release the slots of ended attempts. A slot that another attempt holds by now
    /// stays with that attempt.
    pub(crate) fn slot_releases(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Vec<TransactWriteItem> {
        let over = deployment.attempts.iter().filter(|attempt| attempt.ended.is_some());
        over.flat_map(|attempt| {
            let holder = SlotHolder { deployment: deployment.id, attempt: attempt.number };
            let release = move |slot| self.slot_release(org, slot, holder);
            attempt.slots.iter().map(release)
        })
        .collect()
    }

    fn slot_release(
        &self,
        org: OrgUuid,
        slot: &ConcurrencySlot,
        holder: SlotHolder,
    ) -> TransactWriteItem {
        delete(self, &keys::slot(org, slot), free_or_held_by(holder))
    }
}
