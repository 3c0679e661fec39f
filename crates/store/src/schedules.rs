//! Schedules of environments.

use crate::conditional::Item;
use crate::deployment_lists::string;
use crate::items::{Condition, delete, number, put, text, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::table::{GSI2, PK, SK, TTL};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{EnvUuid, OrgUuid};
use canyon_domain::schedule::{MAX_SCHEDULES, Schedule, ScheduleId};
use jiff::Timestamp;

/// What the index of due schedules says of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedule {
    /// Its organization.
    pub org: OrgUuid,
    /// Its environment.
    pub env: EnvUuid,
    /// Its id.
    pub id: ScheduleId,
}

impl Table {
    /// Creates a schedule. Keys: the schedule, audit; on condition that its id is free. 4 write units, and one in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn create_schedule(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create schedule";
        let item = item(OPERATION, org, schedule)?;
        let items = vec![put(self, item, Condition::absent()), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, schedule.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// Writes a changed schedule, with the audit record of a replacement; on condition that it has the version before. One write
    /// unit for each KB and one in `gsi2`, twice that and two more with a record.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn save_schedule(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
        record: Option<&AuditRecord>,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "save schedule";
        let before = schedule.version.saturating_sub(1);
        let condition = Condition::unchanged(schedule.created_at, before);
        let mut items = vec![put(self, item(OPERATION, org, schedule)?, condition)];
        if let Some(record) = record {
            items.push(audit::record(self, org, record)?);
        }
        let done = self.transact(OPERATION, schedule.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// A schedule. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot parse the item.
    pub async fn schedule(
        &self,
        org: OrgUuid,
        env: EnvUuid,
        id: &ScheduleId,
    ) -> Result<Option<Schedule>, StoreError> {
        self.read("read schedule", &keys::schedule(org, env, id)).await
    }

    /// The schedules of an environment by id. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot parse an item.
    pub async fn schedules(
        &self,
        org: OrgUuid,
        env: EnvUuid,
        request: &PageRequest,
    ) -> Result<Page<Schedule>, StoreError> {
        let prefix = keys::schedules_of_environment(env);
        self.page(partition(org, &prefix), request, |_| true).await
    }

    /// Every schedule of an environment. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot parse an item.
    pub async fn all_schedules(
        &self,
        org: OrgUuid,
        env: EnvUuid,
    ) -> Result<Vec<Schedule>, StoreError> {
        let prefix = keys::schedules_of_environment(env);
        self.all(partition(org, &prefix), MAX_SCHEDULES).await
    }

    /// Deletes a schedule, on condition that it has the version that was read. 4 write units, one in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn delete_schedule(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::schedule(org, schedule.env_uuid, &schedule.id);
        let as_read = Condition::unchanged(schedule.created_at, schedule.version);
        let items = vec![delete(self, &key, as_read), audit::record(self, org, record)?];
        let done = self.transact("delete schedule", schedule.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// Lets the table remove a schedule by itself, on condition that it has the version before. One write unit for each KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn expire_schedule(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "expire schedule";
        let before = schedule.version.saturating_sub(1);
        let mut item = item(OPERATION, org, schedule)?;
        item.insert(TTL.to_owned(), number(now.as_second()));
        let condition = Condition::unchanged(schedule.created_at, before);
        let items = vec![put(self, item, condition)];
        let done = self.transact(OPERATION, schedule.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// The schedules that are due at `now`, or have an announcement that is, longest due first, at most `limit`. The index lags behind the table: read the
    /// schedule before a decision. One request, half a read unit if none is due.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read.
    pub async fn due_schedules(
        &self,
        now: Timestamp,
        limit: u16,
    ) -> Result<Vec<DueSchedule>, StoreError> {
        let query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(GSI2.name)
            .key_condition_expression(format!("{} = :pk AND {} <= :now", GSI2.pk, GSI2.sk))
            .expression_attribute_values(":pk", text(keys::SCHEDULES))
            .expression_attribute_values(":now", text(keys::due_at(now)))
            .limit(limit.into());
        let output = query
            .send()
            .await
            .map_err(|error| StoreError::sdk("list due schedules", keys::SCHEDULES, error))?;
        let due = |item: &Item| {
            let (org, env, id) = keys::parse_schedule(&string(item, PK)?, &string(item, SK)?)?;
            Some(DueSchedule { org, env, id })
        };
        Ok(output.items().iter().filter_map(due).collect())
    }

    /// Parts of a transaction: deletes the schedules of an environment. One read unit for each 4 KB of them.
    pub(crate) async fn schedule_removals(
        &self,
        org: OrgUuid,
        env: EnvUuid,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let all = self.all_schedules(org, env).await?;
        let key = |schedule: &Schedule| keys::schedule(org, env, &schedule.id);
        Ok(all.iter().map(|schedule| delete(self, &key(schedule), Condition::default())).collect())
    }
}

fn item(operation: &'static str, org: OrgUuid, of: &Schedule) -> Result<Item, StoreError> {
    let mut item = to_item(operation, &keys::schedule(org, of.env_uuid, &of.id), of)?;
    if let Some(wakes_at) = of.wakes_at() {
        item.insert(GSI2.pk.to_owned(), text(keys::SCHEDULES));
        item.insert(GSI2.sk.to_owned(), text(keys::due_at(wakes_at)));
    }
    Ok(item)
}

fn partition(org: OrgUuid, prefix: &str) -> Partition<'_> {
    Partition {
        operation: "list schedules",
        pk: keys::schedules(org),
        prefix: Some(prefix),
        descending: false,
    }
}
