//! Ends of deployments: how they are written, and when they are published.

use crate::conditional::condition_outcome;
use crate::contention::MAX_TRIES;
use crate::deployment_item::Wake;
use crate::deployments::{DeploymentChange, EnvironmentChange};
use crate::items::{key_item, text};
use crate::outcome::Saved;
use crate::table::{GSI2, PK, WAKE};
use crate::{StoreError, Table, backoff, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::environment_end::AfterEnd;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inventory::Environment;
use jiff::Timestamp;
use std::time::Duration;

/// How long after an end the sweep publishes it, if the stream has not.
const PUBLISH_GRACE: Duration = Duration::from_mins(1);
/// An earlier sweep would often publish again: the stream takes about a second, and the end stays due until the platform shows that the job
/// has exited.
const MIN_PUBLISH_GRACE: Duration = Duration::from_secs(20);

/// What the caller of [`Table::end_deployment_in`] read before the end.
#[derive(Debug, Default)]
pub struct ReadBefore {
    /// The deployment's environment, unless it is to be read now.
    pub environment: Option<Box<Environment>>,
    /// When the deployment was due.
    pub due_at: Option<Timestamp>,
}

/// When the sweep publishes an end. A change of `due_at` costs two index writes, so the deployment keeps the time that it had, if
/// that is suitable.
fn publication(was_due: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let suits = |due: &Timestamp| (now + MIN_PUBLISH_GRACE..=now + PUBLISH_GRACE).contains(due);
    was_due.filter(suits).unwrap_or(now + PUBLISH_GRACE)
}

impl Table {
    /// Writes the end of a deployment, and gives the turn to the next one in the environment's
    /// queue. Keys: the deployment, its environment (read first), the next deployment, audit; on
    /// condition that the deployment has the version before. [`Saved::Lost`] if it has not. 6 write
    /// units without a next deployment and a record, and 2 for the entry in the list of failed or
    /// cancelled deployments. If the table publishes ends, the deployment is
    /// due until [`Table::record_end_published`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn end_deployment(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        now: Timestamp,
        record: Option<&AuditRecord>,
    ) -> Result<Saved, StoreError> {
        Box::pin(self.end_deployment_in(org, deployment, ReadBefore::default(), now, record)).await
    }

    /// The same, with what was read before. The environment is read again only if the first try fails.
    ///
    /// # Errors
    ///
    /// As [`Self::end_deployment`].
    pub async fn end_deployment_in(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        before: ReadBefore,
        now: Timestamp,
        record: Option<&AuditRecord>,
    ) -> Result<Saved, StoreError> {
        let mut deployment = deployment.clone();
        deployment.due_at = self.publishes_ends().then(|| publication(before.due_at, now));
        let (deployment, mut known) = (&deployment, before.environment);
        for round in 0..MAX_TRIES {
            let environment = match known.take() {
                Some(known) => Some(*known),
                None => self.environment(org, &deployment.project, &deployment.env).await?,
            };
            let environment = environment.filter(|found| found.uuid == deployment.env_uuid);
            let after_end = environment.as_ref().map(|found| found.after_end(deployment));
            let mut deployment = deployment.clone();
            if let (Some(AfterEnd::Stay(after, _)), Some(before)) = (&after_end, &environment) {
                deployment.record_drift_news(before, after);
            }
            let deployment = &deployment;
            let next = match &after_end {
                Some(AfterEnd::Stay(_, next)) => self.made_due(org, *next, now).await?,
                _ => None,
            };
            let change = match (&after_end, &environment) {
                (Some(AfterEnd::Stay(after, _)), _) => EnvironmentChange::Save(after),
                (Some(AfterEnd::Remove), Some(found)) => EnvironmentChange::Remove(found),
                _ => EnvironmentChange::Keep,
            };
            let (wake, next) = (Wake::Launcher, next.as_ref());
            let step = DeploymentChange { deployment, environment: change, next, wake, record };
            let mut more: Vec<_> = self.entry_of_end(org, deployment).into_iter().collect();
            if let EnvironmentChange::Remove(removed) = step.environment {
                more.extend(self.schedule_removals(org, removed.uuid).await?);
            }
            if self.change_deployment_with(org, &step, more).await? == Saved::Yes {
                return Ok(Saved::Yes);
            }
            if self.has_changed(org, deployment).await? {
                return Ok(Saved::Lost);
            }
            backoff::pause(round).await;
        }
        Err(contended("end deployment", deployment))
    }

    /// Writes that a deployment waits for its approval without the turn of its environment, which the next one in the queue
    /// gets. Keys: the deployment, its environment (read first), the next deployment; on condition that the deployment has the
    /// version before. [`Saved::Lost`] if it has not. 6 write units without a next deployment.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn release_turn(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        now: Timestamp,
    ) -> Result<Saved, StoreError> {
        for round in 0..MAX_TRIES {
            let found = self.environment(org, &deployment.project, &deployment.env).await?;
            let Some(found) = found.filter(|found| found.uuid == deployment.env_uuid) else {
                return self.save_deployment(org, deployment, Wake::Launcher).await;
            };
            let mut waiting = deployment.clone();
            let (after, next) = found.after_release(&mut waiting);
            let next = self.made_due(org, next, now).await?;
            let step = DeploymentChange {
                deployment: &waiting,
                environment: EnvironmentChange::Save(&after),
                next: next.as_ref(),
                wake: Wake::Launcher,
                record: None,
            };
            if self.change_deployment(org, &step).await? == Saved::Yes {
                return Ok(Saved::Yes);
            }
            if self.has_changed(org, deployment).await? {
                return Ok(Saved::Lost);
            }
            backoff::pause(round).await;
        }
        Err(contended("release turn", deployment))
    }

    /// The deployment that may start now, made due.
    async fn made_due(
        &self,
        org: OrgUuid,
        next: Option<DeploymentId>,
        now: Timestamp,
    ) -> Result<Option<Deployment>, StoreError> {
        let Some(next) = next else { return Ok(None) };
        let next = self.deployment(org, next).await?;
        Ok(next.filter(|next| !next.status.is_terminal()).map(|mut next| {
            next.due_at = Some(now);
            next.version += 1;
            next
        }))
    }

    /// Whether a deployment has another version than the one before `deployment`.
    async fn has_changed(&self, org: OrgUuid, deployment: &Deployment) -> Result<bool, StoreError> {
        let stored = self.deployment(org, deployment.id).await?;
        Ok(stored.is_none_or(|stored| stored.version + 1 != deployment.version))
    }

    /// Postpones the publication of a deployment's end: the sweep retries it at `at`. 2 write units
    /// and 2 in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn postpone_end(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let values = [(":at", at.to_string()), (":key", keys::due_at(at))];
        let change = format!("SET due_at = :at, {} = :key REMOVE {WAKE}", GSI2.sk);
        // An end that was published concurrently is no longer in the index, and must not return to
        // it.
        self.reschedule_end(org, id, &format!("attribute_exists({})", GSI2.pk), &change, &values)
            .await
    }

    /// Records that the end of a deployment was published, so that the sweep does not publish it
    /// again. Idempotent. 2 write units and 1 in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn record_end_published(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<(), StoreError> {
        let change = format!("REMOVE due_at, {}, {}, {WAKE}", GSI2.pk, GSI2.sk);
        self.reschedule_end(org, id, &format!("attribute_exists({PK})"), &change, &[]).await
    }

    /// Changes when an ended deployment is due. Does nothing if the deployment is gone or has not
    /// ended.
    async fn reschedule_end(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        condition: &str,
        change: &str,
        values: &[(&str, String)],
    ) -> Result<(), StoreError> {
        let mut request = self
            .client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::deployment(org, id))))
            .condition_expression(format!("{condition} AND attribute_exists(completed_at)"))
            .update_expression(change);
        for (name, value) in values {
            request = request.expression_attribute_values(*name, text(value));
        }
        let result = request.send().await;
        condition_outcome("reschedule ended deployment", id.to_string(), result).map(drop)
    }
}

fn contended(operation: &'static str, deployment: &Deployment) -> StoreError {
    StoreError::Throttled {
        operation,
        thing: deployment.id.to_string(),
        source: "its environment changed again and again".into(),
    }
}
