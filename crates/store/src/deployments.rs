//! Deployments: accepted, moved on, ended; and what is due.
//!
//! A deployment is one item, written whole at each step on condition of its version, so a step that
//! was decided on old facts is never written. Where the environment's turn changes too, both are
//! written in one transaction.

use crate::concurrency::{has_past_places, without_past_places};
use crate::conditional::settle;
use crate::deployment_item::{Wake, bundle_item, deployment_item, from_deployment_item};
use crate::items::{Condition, number, put, to_item};
use crate::outcome::Saved;
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

/// What an `Idempotency-Key` has led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// Whose key it is.
    pub by: CallerId,
    /// The key.
    pub key: String,
    /// SHA-256 of the request's body, in hexadecimal: another body under the same key is refused.
    pub body: String,
    /// The deployment that it made.
    pub deployment: DeploymentId,
    /// The key is free again from then on.
    pub expires_at: Timestamp,
}

/// What accepting a deployment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is stored and will run.
    Yes,
    /// The idempotency key has been used: look what it led to.
    Repeated,
    /// The environment has changed since it was read: read again and decide again.
    Lost,
}

/// A step of a deployment that also changes its environment.
#[derive(Clone, Debug)]
pub struct Move<'a> {
    /// The deployment after the step; its version is one more than what was read.
    pub deployment: &'a Deployment,
    /// What becomes of its environment.
    pub environment: EnvironmentChange<'a>,
    /// The deployment whose turn comes now, made due. The launcher hears of it.
    pub next: Option<&'a Deployment>,
    /// Who hears of the step itself.
    pub wake: Wake,
    /// The record of the change, if somebody asked for it.
    pub record: Option<&'a AuditRecord>,
}

/// What becomes of an environment in a [`Move`].
#[derive(Clone, Copy, Debug)]
pub enum EnvironmentChange<'a> {
    /// It is as given now; its version is one more than what was read.
    Save(&'a Environment),
    /// It is gone; given as it was read.
    Remove(&'a Environment),
    /// It was gone before.
    Nothing,
}

impl Table {
    /// Accepts a deployment. Keys: the deployment and its bundle, its environment with the grown
    /// queue, audit, and the idempotency key if one was given; on condition that the environment
    /// has the version before and the key is free. 10 write units and 3 in the indexes, at 1 KB an
    /// item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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

    /// What a deployment was asked to do. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn bundle(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<Option<Bundle>, StoreError> {
        #[derive(Deserialize)]
        struct BundleItem {
            bundle: String,
        }
        let key = keys::bundle(org, id);
        let Some(item) = self.read::<BundleItem>("read bundle", &key).await? else {
            return Ok(None);
        };
        serde_json::from_str(&item.bundle)
            .map(Some)
            .map_err(|source| StoreError::corrupt("read bundle", key.pk, source))
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
        // TTL deletes late, so an expired key is told by its own time.
        condition.expression.push_str(" OR expires <= :now");
        condition.values.insert(":now".into(), number(now.as_millisecond()));
        Ok(put(self, item, condition))
    }

    /// What an idempotency key of `by` has led to. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
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
    /// [`StoreError`] as every read.
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
    /// for each KB begun, and up to 2 in `gsi2` when it becomes due at another time.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn save_deployment(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        wake: Wake,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update deployment";
        if has_past_places(deployment) {
            let environment = EnvironmentChange::Nothing;
            let step = Move { deployment, environment, next: None, wake, record: None };
            return self.move_deployment(org, &step).await;
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
        let settled = settle(OPERATION, deployment.id.to_string(), result)?;
        Ok(if settled.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Writes a step that somebody asked for, with its record, and wakes the launcher. 4 write units
    /// at 1 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn save_deployment_with(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let step = Move {
            deployment,
            environment: EnvironmentChange::Nothing,
            next: None,
            wake: Wake::Launcher,
            record: Some(record),
        };
        self.move_deployment(org, &step).await
    }

    /// Writes a step that changes the environment too. Keys: the deployment, its environment, the
    /// deployment whose turn comes, audit; on condition that each has the version before. 4 to 16
    /// write units at 1 KB an item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn move_deployment(
        &self,
        org: OrgUuid,
        step: &Move<'_>,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "move deployment";
        let mut items = self.move_items(org, step, OPERATION)?;
        let given_back = self.places_given_back(org, step.deployment);
        let own = items.len();
        items.extend(given_back);
        let thing = step.deployment.id.to_string();
        let done = self.transact(OPERATION, &thing, items.clone()).await?;
        match done {
            Ok(()) => Ok(Saved::Yes),
            // Only places that are others' by now stood in the way: they stay theirs.
            Err(cancelled) if cancelled.first() >= own => {
                items.truncate(own);
                let done = self.transact(OPERATION, &thing, items).await?;
                Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
            }
            Err(_) => Ok(Saved::Lost),
        }
    }

    /// The items of a step, without the places that it gives back.
    pub(crate) fn move_items(
        &self,
        org: OrgUuid,
        step: &Move<'_>,
        operation: &'static str,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let mut items = Vec::new();
        let next = step.next.map(|next| (next, Wake::Launcher));
        for (deployment, wake) in std::iter::once((step.deployment, step.wake)).chain(next) {
            let stored = without_past_places(deployment);
            let item = deployment_item(org, &stored, wake, operation)?;
            let before = deployment.version.saturating_sub(1);
            items.push(put(self, item, Condition::version(before)));
        }
        match step.environment {
            EnvironmentChange::Save(environment) => {
                items.push(self.environment_item(org, environment)?);
            }
            EnvironmentChange::Remove(environment) => {
                items.extend(self.environment_removal(org, environment));
            }
            EnvironmentChange::Nothing => {}
        }
        if let Some(record) = step.record {
            items.push(audit::record(self, org, record)?);
        }
        Ok(items)
    }
}
