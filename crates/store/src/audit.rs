//! Audit records: written in the transaction of the change, read newest first.

use crate::conditional::Item;
use crate::items::{Condition, put, to_item};
use crate::keys;
use crate::page::{Cursor, Page, PageRequest, Partition};
use crate::{StoreError, Table};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::audit_filter::AuditFilter;
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

/// The most months that one page of a selective filter searches.
const MAX_MONTHS_SEARCHED: usize = 12;

impl Table {
    /// An organization's audit records that match, newest first. Keys: the partition of one month after the
    /// other, from the month of `now` (or of the filter's end, or of the cursor) back to that of `created_at`, when the
    /// organization was created, or of the filter's begin. One read unit for each 4 KB, also for what the filter leaves
    /// out, and half a unit for each month without records.
    ///
    /// If the filter leaves out records of its period, a page may be short or empty although more records follow: it reads at
    /// most 12 months, and at most 4,000 records of the last of them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn audit_records(
        &self,
        org: OrgUuid,
        created_at: Timestamp,
        now: Timestamp,
        filter: &AuditFilter,
        request: &PageRequest,
    ) -> Result<Page<AuditRecord>, StoreError> {
        let begin = filter.since.map_or(created_at, |since| since.max(created_at));
        let (last_month, first_key) = (month_start(begin), filter.since.map(first_id_of));
        let end = filter.until.map_or(now, |until| until.min(now));
        // A descending list begins below its cursor.
        let end_key =
            || filter.until.map(|until| Cursor::after(first_id_of(until + 1.millisecond())));
        let mut after = request.after.clone().or_else(end_key);
        let mut month = match request.after.as_ref().and_then(|cursor| time_of(cursor.position())) {
            Some(at) if at < end => month_start(at),
            _ => month_start(end),
        };
        let max_months = if filter.is_selective() { MAX_MONTHS_SEARCHED } else { usize::MAX };
        let wanted = request.limit.clamp(1, 100);
        let mut items = Vec::new();
        for _ in 0..max_months {
            if month < last_month {
                return Ok(Page { items, next: None });
            }
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
            let matches = |record: &AuditRecord| filter.matches(record);
            let page = self.page_from(partition, first_key.as_deref(), &part, matches).await?;
            items.extend(page.items);
            if length(&items) > wanted {
                items.truncate(wanted as usize);
                // The last record's id contains the month in which the next page begins.
                let next = items.last().map(|record: &AuditRecord| record.id.to_string());
                return Ok(Page { items, next: next.map(Cursor::after) });
            }
            if page.next.is_some() {
                return Ok(Page { items, next: page.next });
            }
            month = month_before(month);
        }
        let read_to = first_id_of(month_after(month));
        Ok(Page { items, next: Some(Cursor::after_left_out(read_to)) })
    }
}

/// The least id of its millisecond.
pub(crate) fn first_id_of(at: Timestamp) -> String {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid().to_string()
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// The time in a version 7 UUID.
pub(crate) fn time_of(id: &str) -> Option<Timestamp> {
    let id: uuid::Uuid = id.parse().ok()?;
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
}

pub(crate) fn month_start(at: Timestamp) -> Timestamp {
    let day = at.to_zoned(TimeZone::UTC).date().first_of_month();
    day.to_zoned(TimeZone::UTC).map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp())
}

fn month_before(start: Timestamp) -> Timestamp {
    start.checked_sub(1.hour()).map_or(Timestamp::MIN, month_start)
}

pub(crate) fn month_after(start: Timestamp) -> Timestamp {
    start.checked_add(24.hours() * 32).map_or(Timestamp::MAX, month_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_walked_back_one_by_one() {
        let start = month_start("2026-01-15T12:00:00Z".parse().unwrap());
        assert_eq!(start.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(month_before(start).to_string(), "2025-12-01T00:00:00Z");
        for month in ["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2025-12-01T00:00:00Z"] {
            let month = month.parse().unwrap();
            assert_eq!(month_before(month_after(month)), month);
        }
    }
}
