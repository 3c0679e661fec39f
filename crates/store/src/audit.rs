//! Audit records: written in the transaction of the change, read newest first.

use crate::conditional::Item;
use crate::items::{Condition, put, to_item};
use crate::keys;
use crate::page::{Cursor, Page, PageRequest, Partition};
use crate::{StoreError, Table};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::OrgUuid;
use jiff::{Timestamp, ToSpan, tz::TimeZone};

/// Part of a transaction: the record of the change. 2 write units.
pub(crate) fn record(
    table: &Table,
    org: OrgUuid,
    record: &AuditRecord,
) -> Result<TransactWriteItem, StoreError> {
    let key = keys::audit(org, record.at, record.id);
    let item: Item = to_item("write audit record", &key, record)?;
    Ok(put(table, item, Condition::absent()))
}

impl Table {
    /// An organization's audit records, newest first. Keys: the partition of one month after the
    /// other, from the month of `now` (or of the cursor) back to that of `since`, when the
    /// organization was created. One read unit for each 4 KB, and half a unit for each month
    /// without records.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn audit_records(
        &self,
        org: OrgUuid,
        since: Timestamp,
        now: Timestamp,
        request: &PageRequest,
    ) -> Result<Page<AuditRecord>, StoreError> {
        let first = month_start(since);
        let mut after = request.after.clone();
        let mut month = match after.as_ref().and_then(|cursor| time_of(cursor.position())) {
            Some(at) if at < now => month_start(at),
            _ => month_start(now),
        };
        let wanted = request.limit.clamp(1, 100);
        let mut items = Vec::new();
        while month >= first {
            let partition = Partition {
                operation: "list audit records",
                pk: keys::audit_month(org, month),
                prefix: None,
                descending: true,
            };
            // One more than wanted shows whether more records follow, in this month or an earlier
            // one.
            let missing = (wanted + 1).saturating_sub(length(&items));
            let part = PageRequest { limit: missing, after: after.take() };
            let page = self.page::<AuditRecord>(partition, &part, |_| true).await?;
            items.extend(page.items);
            if length(&items) > wanted || page.next.is_some() {
                items.truncate(wanted as usize);
                // The last record's id contains the month in which the next page begins.
                let next = items.last().map(|record| Cursor::after(record.id.to_string()));
                return Ok(Page { items, next });
            }
            month = month_before(month);
        }
        Ok(Page { items, next: None })
    }
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// The time in a version 7 UUID.
fn time_of(id: &str) -> Option<Timestamp> {
    let id: uuid::Uuid = id.parse().ok()?;
    let (seconds, _) = id.get_timestamp()?.to_unix();
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

fn month_start(at: Timestamp) -> Timestamp {
    let day = at.to_zoned(TimeZone::UTC).date().first_of_month();
    day.to_zoned(TimeZone::UTC).map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp())
}

fn month_before(start: Timestamp) -> Timestamp {
    start.checked_sub(1.hour()).map_or(Timestamp::MIN, month_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_walked_back_one_by_one() {
        let start = month_start("2026-01-15T12:00:00Z".parse().unwrap());
        assert_eq!(start.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(month_before(start).to_string(), "2025-12-01T00:00:00Z");
    }
}
