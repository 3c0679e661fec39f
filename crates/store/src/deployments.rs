//! Deployments: how they are accepted, and each step until their end.
//!
//! A deployment is one item. Each step writes all of it, on condition that it has the version that
//! the step was decided on, so a decision on stale data is never written. If the environment's
//! queue changes too, one transaction writes both.

use crate::conditional::condition_outcome;
use crate::deployment_item::{Wake, bundle_item, deployment_item, from_deployment_item};
use crate::items::{Condition, from_item, key_item, number, put, to_item};
use crate::outcome::Saved;
use crate::released_slots::{has_slots_to_release, without_released_slots};
use crate::table::TTL;
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inventory::Environment;
use canyon_domain::job::Bundle;
use canyon_domain::principal::CallerId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The result of an `Idempotency-Key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// Whose key it is.
    pub by: CallerId,
    /// The key.
    pub key: String,
    /// SHA-256 of the request's body, in hexadecimal. The API refuses another body under the same
    /// key.
    pub body: String,
    /// The deployment that the request created.
    pub deployment: DeploymentId,
    /// From this time on the key can be used again.
    pub expires_at: Timestamp,
}

/// Result of [`Table::accept_deployment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The deployment is stored and will run.
    Yes,
    /// The idempotency key is in use: read its record.
    Repeated,
    /// The environment has changed since it was read: read it again and decide again.
    Lost,
}

/// A step of a deployment that may also change its environment.
#[derive(Clone, Debug)]
pub struct DeploymentChange<'a> {
    /// The deployment after the step; its version is one more than what was read.
    pub deployment: &'a Deployment,
    /// The change of its environment.
    pub environment: EnvironmentChange<'a>,
    /// The next deployment of the environment's queue, made due. Its write wakes the launcher.
    pub next: Option<&'a Deployment>,
    /// Whether the step itself wakes the launcher.
    pub wake: Wake,
    /// The audit record, if a user asked for the change.
    pub record: Option<&'a AuditRecord>,
}

/// The change of an environment in a [`DeploymentChange`].
#[derive(Clone, Copy, Debug)]
pub enum EnvironmentChange<'a> {
    /// Stores this environment; its version is one more than what was read.
    Save(&'a Environment),
    /// Deletes the environment; given as it was read.
    Remove(&'a Environment),
    /// Leaves it: it was deleted before, or does not change.
    Keep,
}

#[derive(Deserialize)]
pub(crate) struct BundleItem {
    pk: String,
    bundle: String,
}

impl BundleItem {
    pub(crate) fn read(self) -> Result<Bundle, StoreError> {
        serde_json::from_str(&self.bundle)
            .map_err(|source| StoreError::corrupt("read bundle", self.pk, source))
    }
}

impl Table {
    /// Accepts a deployment. Keys: the deployment and its bundle, its environment with the longer
    /// queue, audit, and the idempotency key if one is given; on condition that the environment has
    /// the version before and the key is free. 10 write units and 3 in the indexes, at 1 KB for
    /// each item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn accept_deployment(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        bundle: &Bundle,
        environment: &Environment,
        idempotency: Option<&IdempotencyRecord>,
        record: &AuditRecord,
    ) -> Result<Accepted, StoreError> {
        const OPERATION: &str = "accept deployment";
        let item = deployment_item(org, deployment, Wake::Launcher, OPERATION)?;
        let mut items = vec![
            put(self, item, Condition::absent()),
            self.environment_item(org, environment)?,
            audit::record(self, org, record)?,
            put(self, bundle_item(org, deployment.id, bundle)?, Condition::absent()),
        ];
        let key = idempotency.map(|_| items.len());
        if let Some(idempotency) = idempotency {
            items.push(self.idempotency_item(org, idempotency, deployment.created_at)?);
        }
        match self.transact(OPERATION, &deployment.id.to_string(), items).await? {
            Ok(()) => Ok(Accepted::Yes),
            Err(cancelled) if key.is_some_and(|key| cancelled.includes(key)) => {
                Ok(Accepted::Repeated)
            }
            Err(_) => Ok(Accepted::Lost),
        }
    }

    /// The bundle of a deployment: module, inputs and recipients. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn bundle(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<Option<Bundle>, StoreError> {
        let item: Option<BundleItem> = self.read("read bundle", &keys::bundle(org, id)).await?;
        item.map(BundleItem::read).transpose()
    }

    /// The bundles of these deployments (at most 100) that are stored, in no order. One request, if there is a deployment;
    /// one read unit for each 4 KB of a bundle.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn bundles(
        &self,
        org: OrgUuid,
        ids: impl Iterator<Item = DeploymentId>,
    ) -> Result<Vec<Bundle>, StoreError> {
        let keys = ids.map(|id| key_item(&keys::bundle(org, id))).collect();
        let items = self.batch("read bundles", keys).await?;
        let read = |item| from_item::<BundleItem>("read bundles", item)?.read();
        items.into_iter().map(read).collect()
    }

    fn idempotency_item(
        &self,
        org: OrgUuid,
        record: &IdempotencyRecord,
        now: Timestamp,
    ) -> Result<TransactWriteItem, StoreError> {
        let key = keys::idempotency(org, &record.by, &record.key);
        let mut item = to_item("remember idempotency key", &key, record)?;
        item.insert(TTL.into(), number(record.expires_at.as_second()));
        item.insert("expires".into(), number(record.expires_at.as_millisecond()));
        let mut condition = Condition::absent();
        // DynamoDB deletes expired items late, so `expires` decides whether the key is expired.
        condition.expression.push_str(" OR expires <= :now");
        condition.values.insert(":now".into(), number(now.as_millisecond()));
        Ok(put(self, item, condition))
    }

    /// The record of an idempotency key of `by`. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn idempotency(
        &self,
        org: OrgUuid,
        by: &CallerId,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.read("read idempotency key", &keys::idempotency(org, by, key)).await
    }

    /// A deployment. One read unit up to 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn deployment(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<Option<Deployment>, StoreError> {
        const OPERATION: &str = "read deployment";
        let key = keys::deployment(org, id);
        let item = self.read_item(OPERATION, &key).await?;
        item.map(|item| from_deployment_item(OPERATION, item)).transpose()
    }

    /// Writes a step of a deployment, on condition that it has the version before. One write unit
    /// for each started KB, and up to 2 in `gsi2` if its due time changes.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_deployment(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        wake: Wake,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update deployment";
        if has_slots_to_release(deployment) {
            let environment = EnvironmentChange::Keep;
            let step = DeploymentChange { deployment, environment, next: None, wake, record: None };
            return self.change_deployment(org, &step).await;
        }
        let condition = Condition::version(deployment.version.saturating_sub(1));
        let result = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(deployment_item(org, deployment, wake, OPERATION)?))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(Some(condition.values))
            .send()
            .await;
        let settled = condition_outcome(OPERATION, deployment.id.to_string(), result)?;
        Ok(if settled.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Writes a step that a user asked for, with its audit record, and wakes the launcher. 4 write
    /// units at 1 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_deployment_with(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let step = DeploymentChange {
            deployment,
            environment: EnvironmentChange::Keep,
            next: None,
            wake: Wake::Launcher,
            record: Some(record),
        };
        self.change_deployment(org, &step).await
    }

    /// Writes a step that may change the environment too. Keys: the deployment, its environment,
    /// the next deployment of the queue, audit; on condition that each has the version before. 4 to
    /// 16 write units at 1 KB for each item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn change_deployment(
        &self,
        org: OrgUuid,
        change: &DeploymentChange<'_>,
    ) -> Result<Saved, StoreError> {
        self.change_deployment_with(org, change, Vec::new()).await
    }

    /// The same with more items in the transaction.
    pub(crate) async fn change_deployment_with(
        &self,
        org: OrgUuid,
        change: &DeploymentChange<'_>,
        more: Vec<TransactWriteItem>,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "change deployment";
        let mut items = self.change_items(org, change, OPERATION)?;
        items.extend(more);
        let releases = self.slot_releases(org, change.deployment);
        let own = items.len();
        items.extend(releases);
        let thing = change.deployment.id.to_string();
        let done = self.transact(OPERATION, &thing, items.clone()).await?;
        match done {
            Ok(()) => Ok(Saved::Yes),
            // Only the release of slots failed: other attempts hold them by now, and keep them.
            Err(cancelled) if cancelled.first() >= own => {
                items.truncate(own);
                let done = self.transact(OPERATION, &thing, items).await?;
                Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
            }
            Err(_) => Ok(Saved::Lost),
        }
    }

    /// The items of a step, without the slots that it releases.
    pub(crate) fn change_items(
        &self,
        org: OrgUuid,
        change: &DeploymentChange<'_>,
        operation: &'static str,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let mut items = Vec::new();
        let next = change.next.map(|next| (next, Wake::Launcher));
        for (deployment, wake) in std::iter::once((change.deployment, change.wake)).chain(next) {
            let stored = without_released_slots(deployment);
            let item = deployment_item(org, &stored, wake, operation)?;
            let before = deployment.version.saturating_sub(1);
            items.push(put(self, item, Condition::version(before)));
        }
        match change.environment {
            EnvironmentChange::Save(environment) => {
                items.push(self.environment_item(org, environment)?);
            }
            EnvironmentChange::Remove(environment) => {
                items.extend(self.environment_removal(org, environment));
            }
            EnvironmentChange::Keep => {}
        }
        if let Some(record) = change.record {
            items.push(audit::record(self, org, record)?);
        }
        Ok(items)
    }
}
