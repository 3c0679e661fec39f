//! The retention setting of an organization.

use crate::deployment_lists::string;
use crate::items::{Condition, delete, put, text, to_item};
use crate::outcome::{Deleted, Saved};
use crate::table::{GSI2, PK};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::OrgUuid;
use canyon_domain::retention::RetentionSetting;
use jiff::Timestamp;

/// Most organizations that one search returns; the next one finds the others.
const MAX_DUE: i32 = 100;

fn before(setting: &RetentionSetting) -> Condition {
    Condition::unchanged(setting.created_at, setting.version.saturating_sub(1))
}

impl Table {
    /// The retention setting of an organization. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot parse the item.
    pub async fn retention(&self, org: OrgUuid) -> Result<Option<RetentionSetting>, StoreError> {
        self.read("read retention", &keys::retention(org)).await
    }

    /// Writes the setting with the audit record, if there is one. Keys: the setting and audit; on condition that the
    /// setting has the version before, or is absent for version 1. One write unit and one in `gsi2`, twice that and two
    /// more with a record.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn save_retention(
        &self,
        org: OrgUuid,
        setting: &RetentionSetting,
        record: Option<&AuditRecord>,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "set retention";
        let mut item = to_item(OPERATION, &keys::retention(org), setting)?;
        item.insert(GSI2.pk.into(), text(keys::RETENTIONS));
        item.insert(GSI2.sk.into(), text(keys::due_at(setting.due_at)));
        let condition = if setting.version == 1 { Condition::absent() } else { before(setting) };
        let mut items = vec![put(self, item, condition)];
        if let Some(record) = record {
            items.push(audit::record(self, org, record)?);
        }
        let done = self.transact(OPERATION, "retention", items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes the setting. Keys: the setting and audit; on condition that it exists. 4 write units and one in `gsi2`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does not answer, the write may
    /// have happened.
    pub async fn delete_retention(
        &self,
        org: OrgUuid,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::retention(org);
        let items =
            vec![delete(self, &key, Condition::present()), audit::record(self, org, record)?];
        let done = self.transact("delete retention", "retention", items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// The organizations whose retention is due at `now`, longest due first, at most 100. The index lags behind the table:
    /// read the setting before a decision. Half a read unit if none is due.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read.
    pub async fn due_retentions(&self, now: Timestamp) -> Result<Vec<OrgUuid>, StoreError> {
        let query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(GSI2.name)
            .key_condition_expression(format!("{} = :pk AND {} <= :now", GSI2.pk, GSI2.sk))
            .expression_attribute_values(":pk", text(keys::RETENTIONS))
            .expression_attribute_values(":now", text(keys::due_at(now)))
            .limit(MAX_DUE);
        let output = query
            .send()
            .await
            .map_err(|error| StoreError::sdk("list due retentions", keys::RETENTIONS, error))?;
        let org = |item: &_| keys::parse_organization(&string(item, PK)?);
        Ok(output.items().iter().filter_map(org).collect())
    }
}
