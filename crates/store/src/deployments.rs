//! Deployments: accepted, moved on, ended; and what is due.
//!
//! A deployment is one item, written whole at each step on condition of its version, so a step that
//! was decided on old facts is never written. Where the environment's turn changes too, both are
//! written in one transaction.

use crate::conditional::{Item, settle};
use crate::items::{Condition, from_item, key_item, number, put, text, to_item};
use crate::outcome::Saved;
use crate::table::{GSI1, GSI2, GSI3, TTL};
use crate::{StoreError, Table, audit, backoff, keys};
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid, PrincipalId};
use canyon_domain::inventory::{AfterEnd, Environment};
use canyon_domain::job::Bundle;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The attribute of a bundle item that holds its JSON text.
const BUNDLE: &str = "bundle";
/// How often the end of a deployment is tried again when its environment has changed meanwhile.
const MAX_TRIES: u32 = 20;

/// What an `Idempotency-Key` has led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// Whose key it is.
    pub by: PrincipalId,
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
    /// The deployment whose turn comes now, made due.
    pub next: Option<&'a Deployment>,
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
        let item = deployment_item(org, deployment, OPERATION)?;
        let mut items = vec![
            put(self, item, Condition::absent()),
            self.environment_item(org, environment)?,
            audit::record(self, org, record)?,
            put(self, bundle_item(org, deployment.id, bundle)?, Condition::absent()),
        ];
        if let Some(idempotency) = idempotency {
            items.push(self.idempotency_item(org, idempotency, deployment.created_at)?);
        }
        match self.transact(OPERATION, &deployment.id.to_string(), items).await? {
            Ok(()) => Ok(Accepted::Yes),
            Err(cancelled) if cancelled.includes(4) => Ok(Accepted::Repeated),
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
        let key = keys::idempotency(org, record.by, &record.key);
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
        by: PrincipalId,
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
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update deployment";
        let condition = Condition::version(deployment.version.saturating_sub(1));
        let result = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(deployment_item(org, deployment, OPERATION)?))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(Some(condition.values))
            .send()
            .await;
        let settled = settle(OPERATION, deployment.id.to_string(), result)?;
        Ok(if settled.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Writes a step that somebody asked for, with its record. 4 write units at 1 KB.
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
        let mut items = Vec::new();
        for deployment in std::iter::once(step.deployment).chain(step.next) {
            let item = deployment_item(org, deployment, OPERATION)?;
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
        let done = self.transact(OPERATION, &step.deployment.id.to_string(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Writes the end of a deployment, and gives the turn to the next. Keys: the deployment, its
    /// environment (read first), the deployment whose turn comes, audit; on condition that the
    /// deployment has the version before. [`Saved::Lost`] if it has not. 6 write units without
    /// a next one and a record.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn end_deployment(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        now: Timestamp,
        record: Option<&AuditRecord>,
    ) -> Result<Saved, StoreError> {
        for round in 0..MAX_TRIES {
            let environment = self.environment(org, &deployment.project, &deployment.env).await?;
            let environment = environment.filter(|found| found.uuid == deployment.env_uuid);
            let fate = environment.as_ref().map(|found| found.after_end(deployment));
            let next = match &fate {
                Some(AfterEnd::Stay(_, Some(next))) => self.deployment(org, *next).await?,
                _ => None,
            };
            let next = next.filter(|next| !next.status.is_terminal()).map(|mut next| {
                next.due_at = Some(now);
                next.version += 1;
                next
            });
            let change = match (&fate, &environment) {
                (Some(AfterEnd::Stay(after, _)), _) => EnvironmentChange::Save(after),
                (Some(AfterEnd::Remove), Some(found)) => EnvironmentChange::Remove(found),
                _ => EnvironmentChange::Nothing,
            };
            let step = Move { deployment, environment: change, next: next.as_ref(), record };
            if self.move_deployment(org, &step).await? == Saved::Yes {
                return Ok(Saved::Yes);
            }
            let stored = self.deployment(org, deployment.id).await?;
            if stored.is_none_or(|stored| stored.version + 1 != deployment.version) {
                return Ok(Saved::Lost);
            }
            backoff::pause(round).await;
        }
        Err(StoreError::Throttled {
            operation: "end deployment",
            thing: deployment.id.to_string(),
            source: "its environment changed again and again".into(),
        })
    }
}

fn deployment_item(
    org: OrgUuid,
    deployment: &Deployment,
    operation: &'static str,
) -> Result<Item, StoreError> {
    let mut item = to_item(operation, &keys::deployment(org, deployment.id), deployment)?;
    let id = text(deployment.id.to_string());
    item.insert(GSI1.pk.into(), text(keys::deployments(org)));
    item.insert(GSI1.sk.into(), id.clone());
    item.insert(GSI3.pk.into(), text(keys::deployments_of_environment(org, deployment.env_uuid)));
    item.insert(GSI3.sk.into(), id);
    for (name, _) in IN_KEYS {
        item.remove(name);
    }
    if let Some(due) = deployment.due_at {
        item.insert(GSI2.pk.into(), text(keys::due_shard_of(deployment.id)));
        item.insert(GSI2.sk.into(), text(keys::due_at(due)));
    }
    Ok(item)
}

/// Attributes of a deployment that its index keys hold too, and in which: they are not stored twice,
/// because an item of more than 1 KB costs another write unit at each step.
const IN_KEYS: [(&str, &str); 2] = [("id", GSI1.sk), ("env_uuid", GSI3.pk)];

/// Reads what [`deployment_item`] made.
pub(crate) fn from_deployment_item(
    operation: &'static str,
    mut item: Item,
) -> Result<Deployment, StoreError> {
    for (name, key) in IN_KEYS {
        if let Some(AttributeValue::S(key)) = item.get(key) {
            let value = text(keys::last_part(key));
            item.insert(name.into(), value);
        }
    }
    from_item(operation, item)
}

/// The bundle lies beside its deployment, as JSON text: a request has at most 256 KB, so it fits
/// into an item, and the transaction that accepts the one stores the other.
fn bundle_item(org: OrgUuid, id: DeploymentId, bundle: &Bundle) -> Result<Item, StoreError> {
    let key = keys::bundle(org, id);
    let json = serde_json::to_string(bundle)
        .map_err(|source| StoreError::corrupt("store bundle", &key.pk, source))?;
    let mut item = key_item(&key);
    item.insert(BUNDLE.into(), text(json));
    Ok(item)
}
