//! What an organization's items and objects amount to. Each count is bounded in requests, and says whether it is complete.

use crate::blob_keys::{BlobKey, BlobPrefix};
use crate::blobs::Blobs;
use crate::deployment_lists::string;
use crate::page::Partition;
use crate::table::{GSI1, PK, SK};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inventory::Environment;
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most requests for one count: of an index entry, one reads about 5,000; of audit records, about 1,500.
const MAX_REQUESTS: u32 = 40;
/// Most environments that are read.
const MAX_ENVIRONMENTS: usize = 1_000;
/// Most objects that are listed: ten requests to S3.
const MAX_OBJECTS: usize = 10_000;

/// A count of items, from the oldest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many there are, or at least.
    pub count: u64,
    /// How many of them are from before the given time.
    pub older: u64,
    /// The time of the oldest.
    pub oldest: Option<Timestamp>,
    /// Whether these are all.
    pub is_complete: bool,
}

impl Counted {
    /// Adds what has this id of version 7; ids come in ascending order.
    fn add(&mut self, id: &str, before: Option<&str>) {
        self.count += 1;
        self.older += u64::from(before.is_some_and(|before| id < before));
        if self.oldest.is_none() {
            self.oldest = audit::time_of(id);
        }
    }
}

/// The logs and events of deployments, oldest deployment first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredLogs {
    /// The bytes of each deployment that has any.
    pub bytes: BTreeMap<DeploymentId, u64>,
    /// Whether these are all.
    pub is_complete: bool,
}

impl StoredLogs {
    /// How many deployments that were accepted before `before` have logs, and their bytes, without those that are `needed`.
    pub fn older(&self, before: Option<Timestamp>, needed: &HashSet<DeploymentId>) -> (u64, u64) {
        let Some(before) = before else { return (0, 0) };
        let older =
            self.bytes.iter().filter(|(id, _)| id.accepted_before(before) && !needed.contains(id));
        older.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes))
    }
}

type Start = Option<HashMap<String, AttributeValue>>;

impl Table {
    /// Counts an organization's deployments, and those that were accepted before `before`. At most 40 requests to `gsi1`,
    /// half a read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read.
    pub async fn count_deployments(
        &self,
        org: OrgUuid,
        before: Option<Timestamp>,
    ) -> Result<Counted, StoreError> {
        let pk = keys::deployments(org);
        let before = before.map(audit::first_id_of);
        let mut counted = Counted::default();
        let mut start: Start = None;
        for _ in 0..MAX_REQUESTS {
            let query = self
                .client()
                .query()
                .table_name(self.name())
                .index_name(GSI1.name)
                .key_condition_expression(format!("{} = :pk", GSI1.pk))
                .expression_attribute_values(":pk", AttributeValue::S(pk.clone()))
                .projection_expression(GSI1.sk)
                .set_exclusive_start_key(start);
            let output = query
                .send()
                .await
                .map_err(|error| StoreError::sdk("count deployments of", &pk, error))?;
            for id in output.items().iter().filter_map(|item| string(item, GSI1.sk)) {
                counted.add(&id, before.as_deref());
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                counted.is_complete = true;
                break;
            }
        }
        Ok(counted)
    }

    /// Counts an organization's audit records from the month of `created_at` to that of `now`, and those from before
    /// `before`. At most 40 requests, half a read unit for each 4 KB or month.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read.
    pub async fn count_audit_records(
        &self,
        org: OrgUuid,
        created_at: Timestamp,
        now: Timestamp,
        before: Option<Timestamp>,
    ) -> Result<Counted, StoreError> {
        let before = before.map(audit::first_id_of);
        let mut counted = Counted::default();
        let mut month = audit::month_start(created_at);
        let mut start: Start = None;
        for _ in 0..MAX_REQUESTS {
            if month > now {
                counted.is_complete = true;
                break;
            }
            let pk = keys::audit_month(org, month);
            let query = self
                .client()
                .query()
                .table_name(self.name())
                .key_condition_expression(format!("{PK} = :pk"))
                .expression_attribute_values(":pk", AttributeValue::S(pk.clone()))
                .projection_expression(SK)
                .set_exclusive_start_key(start);
            let output = query
                .send()
                .await
                .map_err(|error| StoreError::sdk("count audit records of", &pk, error))?;
            for id in output.items().iter().filter_map(|item| string(item, SK)) {
                counted.add(&id, before.as_deref());
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                month = audit::month_after(month);
            }
        }
        Ok(counted)
    }

    /// An organization's environments, at most 1,000. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot parse the item.
    pub async fn first_environments(&self, org: OrgUuid) -> Result<Vec<Environment>, StoreError> {
        let partition = Partition {
            operation: "count environments",
            pk: keys::environments(org),
            prefix: None,
            descending: false,
        };
        self.all(partition, MAX_ENVIRONMENTS).await
    }

    /// Whether [`Self::first_environments`] may have left out some.
    pub fn may_have_more(environments: &[Environment]) -> bool {
        environments.len() >= MAX_ENVIRONMENTS
    }
}

impl Blobs {
    /// The bytes of logs and events of an organization's deployments. Lists at most 10,000 objects, with ten requests to
    /// S3; a folder lists all of its own.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn stored_logs(&self, org: OrgUuid) -> Result<StoredLogs, StoreError> {
        let most = if self.lists_in_order() { MAX_OBJECTS } else { usize::MAX };
        let found = self.list_at_most(&BlobPrefix::deployments(org), None, most).await?;
        let mut logs = StoredLogs { is_complete: found.len() < most, ..StoredLogs::default() };
        let chunk = |(key, size): (BlobKey, u64)| Some((key.deployment_of_chunk()?, size));
        for (deployment, size) in found.into_iter().filter_map(chunk) {
            *logs.bytes.entry(deployment).or_default() += size;
        }
        Ok(logs)
    }
}
