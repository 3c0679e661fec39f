//! Limits on how many attempts run at once, and their places: an item for each that is held.

use crate::deployments::Move;
use crate::items::{Condition, delete, put, text, to_item};
use crate::outcome::{Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::concurrency::{ConcurrencyLimit, HeldPlace, Holder, LimitScope, Place};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use serde::{Deserialize, Serialize};

/// The most limits of an organization that are looked at for a launch.
const MAX_LIMITS: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct PlaceItem {
    number: u32,
    deployment: DeploymentId,
    attempt: u32,
    /// The holder as one text, for conditions.
    held_by: String,
}

fn held_by(holder: Holder) -> String {
    format!("{}#{}", holder.deployment, holder.attempt)
}

/// A place to be taken with an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// Which.
    pub place: Place,
    /// Whose it was, if that one is known to hold it no more.
    pub instead_of: Option<Holder>,
}

fn partition_of_limits(org: OrgUuid) -> Partition<'static> {
    Partition {
        operation: "list concurrency limits",
        pk: keys::limits(org),
        prefix: None,
        descending: false,
    }
}

/// The holder is this one, or nobody.
fn free_or_of(holder: Holder) -> Condition {
    let mut condition = Condition::absent();
    condition.expression.push_str(" OR held_by = :holder");
    condition.values.insert(":holder".to_owned(), text(held_by(holder)));
    condition
}

impl Table {
    /// Sets a limit, in the place of what there was. Keys: it, audit. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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

    /// Takes a limit away. Who holds a place of it gives it back all the same. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
    /// [`StoreError`] as every read.
    pub async fn limit(
        &self,
        org: OrgUuid,
        scope: &LimitScope,
    ) -> Result<Option<ConcurrencyLimit>, StoreError> {
        self.read("read concurrency limit", &keys::limit(org, scope)).await
    }

    /// The limits of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn limits(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<ConcurrencyLimit>, StoreError> {
        self.page(partition_of_limits(org), request, |_| true).await
    }

    /// Every limit of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn all_limits(&self, org: OrgUuid) -> Result<Vec<ConcurrencyLimit>, StoreError> {
        self.all(partition_of_limits(org), MAX_LIMITS).await
    }

    /// The places of a limit that are held. One read unit for each 4 KB: about 20 places.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn held_places(
        &self,
        org: OrgUuid,
        scope: &LimitScope,
    ) -> Result<Vec<HeldPlace>, StoreError> {
        let partition = Partition {
            operation: "list held places",
            pk: keys::places(org, scope),
            prefix: None,
            descending: false,
        };
        let place = |item: PlaceItem| HeldPlace {
            number: item.number,
            holder: Holder { deployment: item.deployment, attempt: item.attempt },
        };
        // As many as there are: a limit has at most so many places.
        let held = self.all::<PlaceItem>(partition, usize::MAX).await?;
        Ok(held.into_iter().map(place).collect())
    }

    /// Writes a new attempt as [`Table::move_deployment`] does, and takes its places with it; on
    /// condition that these are free, or held by whom they are taken from. 2 write units more for each
    /// place.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn launch_deployment(
        &self,
        org: OrgUuid,
        step: &Move<'_>,
        places: &[Taking],
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "launch deployment";
        let deployment = step.deployment;
        let mut items = self.move_items(org, step, OPERATION)?;
        let number = deployment.open_attempt().map_or(0, |attempt| attempt.number);
        let holder = Holder { deployment: deployment.id, attempt: number };
        for taking in places {
            let key = keys::place(org, &taking.place);
            let item = PlaceItem {
                number: taking.place.number,
                deployment: holder.deployment,
                attempt: holder.attempt,
                held_by: held_by(holder),
            };
            let condition = taking.instead_of.map_or_else(Condition::absent, free_or_of);
            items.push(put(self, to_item(OPERATION, &key, &item)?, condition));
        }
        let done = self.transact(OPERATION, &deployment.id.to_string(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// What gives back the places of attempts that are over. One that is another's by now stays his.
    pub(crate) fn places_given_back(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Vec<TransactWriteItem> {
        let over = deployment.attempts.iter().filter(|attempt| attempt.ended.is_some());
        over.flat_map(|attempt| {
            let holder = Holder { deployment: deployment.id, attempt: attempt.number };
            let give_back = move |place| self.place_given_back(org, place, holder);
            attempt.places.iter().map(give_back)
        })
        .collect()
    }

    fn place_given_back(&self, org: OrgUuid, place: &Place, holder: Holder) -> TransactWriteItem {
        delete(self, &keys::place(org, place), free_or_of(holder))
    }
}

/// The deployment as it is stored once the places of its past attempts are given back.
pub(crate) fn without_past_places(deployment: &Deployment) -> Deployment {
    let mut deployment = deployment.clone();
    for attempt in &mut deployment.attempts {
        if attempt.ended.is_some() {
            attempt.places.clear();
        }
    }
    deployment
}

/// Whether an attempt that is over holds places.
pub(crate) fn has_past_places(deployment: &Deployment) -> bool {
    deployment.attempts.iter().any(|attempt| attempt.ended.is_some() && !attempt.places.is_empty())
}
