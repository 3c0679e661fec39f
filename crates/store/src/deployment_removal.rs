//! Removes what an organization keeps no longer: deployments with their objects, logs, and audit records.
//!
//! The objects of a deployment are removed before its item. If the process ends between, the item still leads to the
//! objects that are left, and the next pass removes them.

use crate::blob_keys::{BlobPrefix, Stream};
use crate::blobs::Blobs;
use crate::conditional::condition_outcome;
use crate::deployment_lists::string;
use crate::deployment_search::is_listed;
use crate::items::{Condition, delete, key_item, text};
use crate::outcome::Deleted;
use crate::page::sort_key;
use crate::table::{GSI1, PK, SK};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

/// How many items are deleted at once.
const DELETIONS: usize = 16;

/// Most months that one call searches for audit records.
const MAX_MONTHS: usize = 24;

/// What [`Table::remove_audit_records`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRemoval {
    /// How many records it removed.
    pub removed: usize,
    /// No record from before this time is left. The next call begins here.
    pub from: Timestamp,
    /// Nothing is left to remove.
    pub is_complete: bool,
}

/// The two lists of an organization: a deployment is in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunList {
    /// All but the checks for drift.
    Deployments,
    /// The checks for drift.
    ChecksForDrift,
}

impl Table {
    /// The ids of an organization's oldest deployments, oldest first: those after `after` that were accepted before
    /// `before`, at most `limit`. Key: `gsi1`. Half a read unit for each 4 KB of index.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read.
    pub async fn oldest_deployments(
        &self,
        org: OrgUuid,
        of: RunList,
        after: Option<DeploymentId>,
        before: Timestamp,
        limit: i32,
    ) -> Result<Vec<DeploymentId>, StoreError> {
        let pk = match of {
            RunList::Deployments => keys::deployments(org),
            RunList::ChecksForDrift => keys::checks_for_drift(org),
        };
        let mut query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(GSI1.name)
            .key_condition_expression(format!("{} = :pk AND {} < :before", GSI1.pk, GSI1.sk))
            .expression_attribute_values(":pk", text(&pk))
            .expression_attribute_values(":before", text(audit::first_id_of(before)))
            .limit(limit);
        if let Some(id) = after {
            // DynamoDB rejects a start outside of the condition, after a change to a longer retention.
            if id.to_string() >= audit::first_id_of(before) {
                return Ok(Vec::new());
            }
            let mut start = key_item(&keys::deployment(org, id));
            start.insert(GSI1.pk.into(), text(&pk));
            start.insert(GSI1.sk.into(), text(id.to_string()));
            query = query.set_exclusive_start_key(Some(start));
        }
        let output = query
            .send()
            .await
            .map_err(|error| StoreError::sdk("list the oldest deployments in", &pk, error))?;
        let id = |item: &_| string(item, GSI1.sk).and_then(|id| id.parse().ok());
        Ok(output.items().iter().filter_map(id).collect())
    }

    /// Removes an ended deployment whose objects are removed. Keys: the deployment, its bundle, and its entry in the list
    /// of failed or cancelled deployments; on condition that the deployment has this version. 4 to 6 write units at 1 KB
    /// for each item, and 2 in the indexes.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn remove_deployment(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Result<Deleted, StoreError> {
        let id = deployment.id;
        let version = Condition::version(deployment.version);
        let mut items = vec![
            delete(self, &keys::deployment(org, id), version),
            delete(self, &keys::bundle(org, id), Condition::default()),
        ];
        if is_listed(deployment.status) {
            let entry = keys::ended_deployment(org, deployment.status, id);
            items.push(delete(self, &entry, Condition::default()));
        }
        let done = self.transact("remove deployment", &id.to_string(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// Removes audit records from before `before`, oldest first, at most `most` (from 1). Begins in the month of `from`;
    /// searches at most 24 months. One read unit for each 4 KB or month, and one write unit for each record at 1 KB.
    /// A record that another process removes meanwhile counts too.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects a request; some records may be gone by then.
    pub async fn remove_audit_records(
        &self,
        org: OrgUuid,
        from: Timestamp,
        before: Timestamp,
        most: usize,
    ) -> Result<AuditRemoval, StoreError> {
        let mut month = audit::month_start(from);
        let mut removed = 0;
        for _ in 0..MAX_MONTHS {
            if month >= before {
                return Ok(AuditRemoval { removed, from: month, is_complete: true });
            }
            let wanted = most - removed;
            let found = self.oldest_records(org, month, before, wanted).await?;
            let count = found.len();
            stream::iter(found)
                .map(|id| self.remove_record(org, month, id))
                .buffer_unordered(DELETIONS)
                .try_collect::<()>()
                .await?;
            removed += count;
            if count == wanted {
                return Ok(AuditRemoval { removed, from: month, is_complete: false });
            }
            let next = audit::month_after(month);
            if next > before {
                return Ok(AuditRemoval { removed, from: month, is_complete: true });
            }
            month = next;
        }
        Ok(AuditRemoval { removed, from: month, is_complete: false })
    }

    /// The sort keys of the records of a month from before `before`, oldest first.
    async fn oldest_records(
        &self,
        org: OrgUuid,
        month: Timestamp,
        before: Timestamp,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let pk = keys::audit_month(org, month);
        let mut found = Vec::new();
        let mut start = None;
        loop {
            let missing = most - found.len();
            let output = self
                .client()
                .query()
                .table_name(self.name())
                .consistent_read(true)
                .key_condition_expression(format!("{PK} = :pk AND {SK} < :before"))
                .expression_attribute_values(":pk", text(&pk))
                .expression_attribute_values(":before", text(audit::first_id_of(before)))
                .projection_expression(SK)
                .limit(i32::try_from(missing).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|error| StoreError::sdk("list the oldest audit records of", &pk, error))?;
            found.extend(output.items().iter().map(sort_key));
            start = output.last_evaluated_key;
            if start.is_none() || found.len() >= most {
                return Ok(found);
            }
        }
    }

    async fn remove_record(
        &self,
        org: OrgUuid,
        month: Timestamp,
        id: String,
    ) -> Result<(), StoreError> {
        let pk = keys::audit_month(org, month);
        let result = self
            .client()
            .delete_item()
            .table_name(self.name())
            .key(PK, text(pk))
            .key(SK, text(&id))
            .send()
            .await;
        condition_outcome("remove audit record", id, result).map(drop)
    }
}

impl Blobs {
    /// Removes at most 1,000 of the objects of a deployment's log and events, and returns whether none is left.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails; some objects may be gone by then.
    pub async fn remove_streams(&self, org: OrgUuid, id: DeploymentId) -> Result<bool, StoreError> {
        let log = self.delete_some(&BlobPrefix::chunks(org, id, Stream::Log)).await?;
        let events = self.delete_some(&BlobPrefix::chunks(org, id, Stream::Events)).await?;
        Ok(log && events)
    }

    /// The same with all objects of the deployment. The archive of its module stays: other deployments may have the same.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails; some objects may be gone by then.
    pub async fn remove_of_deployment(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<bool, StoreError> {
        self.delete_some(&BlobPrefix::deployment(org, id)).await
    }
}
