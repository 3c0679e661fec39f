//! How deployments end, and when their ends are told.

use crate::conditional::settle;
use crate::deployment_item::Wake;
use crate::deployments::{EnvironmentChange, Move};
use crate::items::{key_item, text};
use crate::outcome::Saved;
use crate::table::{GSI2, PK, WAKE};
use crate::{StoreError, Table, backoff, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::environment_end::AfterEnd;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use jiff::Timestamp;
use std::time::Duration;

/// How often the end of a deployment is tried again when its environment has changed meanwhile.
const MAX_TRIES: u32 = 20;
/// How long after an end the sweeper tells of it if nobody has yet. The stream takes a second.
const TOLD_BY: Duration = Duration::from_mins(1);

impl Table {
    /// Writes the end of a deployment, and gives the turn to the next. Keys: the deployment, its
    /// environment (read first), the deployment whose turn comes, audit; on condition that the
    /// deployment has the version before. [`Saved::Lost`] if it has not. 6 write units without
    /// a next one and a record. Where ends are told, it is due until [`Table::end_told`].
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
        let mut deployment = deployment.clone();
        deployment.due_at = self.tells_ends().then(|| now + TOLD_BY);
        let deployment = &deployment;
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
            let (wake, next) = (Wake::Launcher, next.as_ref());
            let step = Move { deployment, environment: change, next, wake, record };
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

    /// An ended deployment whose end is not told yet is looked at again at `at`. 2 write units and 2
    /// in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn come_back(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let values = [(":at", at.to_string()), (":key", keys::due_at(at))];
        let change = format!("SET due_at = :at, {} = :key REMOVE {WAKE}", GSI2.sk);
        // One that was told meanwhile is in the index no more, and stays out of it.
        self.change_end(org, id, &format!("attribute_exists({})", GSI2.pk), &change, &values).await
    }

    /// The end of a deployment was told, so nobody need look at it again. Told again, nothing
    /// changes. 2 write units and 1 in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn end_told(&self, org: OrgUuid, id: DeploymentId) -> Result<(), StoreError> {
        let change = format!("REMOVE due_at, {}, {}, {WAKE}", GSI2.pk, GSI2.sk);
        self.change_end(org, id, &format!("attribute_exists({PK})"), &change, &[]).await
    }

    /// Changes when an ended deployment is looked at. One that is gone, or has not ended, stays as it
    /// is.
    async fn change_end(
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
        settle("change when to look at deployment", id.to_string(), result).map(drop)
    }
}
