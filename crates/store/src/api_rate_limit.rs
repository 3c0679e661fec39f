//! Rate limits of the API, such as for the registration of new agents.
//!
//! Each is a token bucket as in [`crate::rate_limiter`], with one difference: a refused request changes
//! nothing. So a flood does not consume later capacity, and a caller never has to wait longer than
//! one interval for one unit.

use crate::conditional::condition_outcome;
use crate::items::{from_item, key_item, number};
use crate::table::TTL;
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::time::Duration;

const OPERATION: &str = "use rate limit";
/// How often one call retries when concurrent callers change the item.
const MAX_TRIES: u32 = 8;

/// A token bucket: `burst` at once, and one more after each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Most uses at once; at least 1.
    pub burst: u32,
    /// Time after which one more use is allowed.
    pub interval: Duration,
}

/// Whether a use is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed. `refusals` counts the refusals since the last allowed use.
    Allowed {
        /// Counted by [`Table::allow_and_count_refusals`] only; otherwise 0.
        refusals: u64,
    },
    /// Refused. Retry after this time at the earliest.
    RetryAfter(Duration),
}

/// The stored item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
struct Used {
    /// Microseconds since 1970: when the whole burst is available again.
    #[serde(default)]
    full_at: i64,
    #[serde(default)]
    passed_over: u64,
}

impl RateLimit {
    fn interval(self) -> i64 {
        i64::try_from(self.interval.as_micros()).unwrap_or(i64::MAX / 4).max(1)
    }

    /// Time in which `units` are refilled, in microseconds.
    fn refill_time(self, units: u32) -> i64 {
        self.interval().saturating_mul(units.into())
    }

    /// The new `full_at` after a use of `units`; or the time to wait, if fewer units are available.
    fn take(self, units: u32, full_at: i64, now: i64) -> Result<i64, Duration> {
        let next = full_at.max(now).saturating_add(self.refill_time(units));
        let latest = now.saturating_add(self.refill_time(self.burst.max(1)));
        if next <= latest {
            return Ok(next);
        }
        Err(Duration::from_micros(u64::try_from(next - latest).unwrap_or_default()))
    }
}

impl Table {
    /// Uses one unit of the limit `name`, if one is available. One read and one write unit; a
    /// refusal costs one read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table cannot be read or written.
    pub async fn allow(
        &self,
        name: &str,
        limit: RateLimit,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.allow_units(name, limit, 1, now).await
    }

    /// Uses `units` of the limit at once, if all of them are available.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table cannot be read or written.
    pub async fn allow_units(
        &self,
        name: &str,
        limit: RateLimit,
        units: u32,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.use_limit(name, limit, units, now, false).await
    }

    /// Returns units that a caller used and did not need.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table cannot be read or written.
    pub async fn return_units(
        &self,
        name: &str,
        limit: RateLimit,
        units: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = self
            .update_limit(name, "SET full_at = full_at - :time, #ttl = :ttl", now)
            .condition_expression("attribute_exists(full_at)")
            .expression_attribute_values(":time", number(limit.refill_time(units)));
        condition_outcome(OPERATION, name, update.send().await)?.ok();
        Ok(())
    }

    /// Like [`Table::allow`], and counts refusals; the next allowed use returns the count. A
    /// refusal costs one write unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table cannot be read or written.
    pub async fn allow_and_count_refusals(
        &self,
        name: &str,
        limit: RateLimit,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.use_limit(name, limit, 1, now, true).await
    }

    async fn use_limit(
        &self,
        name: &str,
        limit: RateLimit,
        units: u32,
        now: Timestamp,
        counts: bool,
    ) -> Result<Decision, StoreError> {
        for _ in 0..MAX_TRIES {
            let found: Option<Used> = self.read(OPERATION, &keys::api_rate_limit(name)).await?;
            let used = found.unwrap_or_default();
            if let Err(pause) = limit.take(units, used.full_at, now.as_microsecond()) {
                if counts {
                    self.count_refusal(name, now).await?;
                }
                return Ok(Decision::RetryAfter(pause));
            }
            if let Some(before) = self.take(name, limit, units, used.full_at, now).await? {
                return Ok(Decision::Allowed { refusals: before.passed_over });
            }
        }
        // Concurrent callers won all retries.
        Ok(Decision::RetryAfter(limit.interval))
    }

    /// Uses `units`. Whether the burst was complete at `now` (as `full_at` says) selects the
    /// update; the condition holds as long as that is still true and enough units are left, however
    /// many concurrent callers use some. Returns what was stored before, or `None` if the condition
    /// failed.
    async fn take(
        &self,
        name: &str,
        limit: RateLimit,
        units: u32,
        full_at: i64,
        now: Timestamp,
    ) -> Result<Option<Used>, StoreError> {
        let (now_at, time) = (now.as_microsecond(), limit.refill_time(units));
        let latest = now_at.saturating_add(limit.refill_time(limit.burst.max(1)));
        let update = if full_at > now_at {
            self.update_limit(
                name,
                "SET full_at = full_at + :time, #ttl = :ttl REMOVE passed_over",
                now,
            )
            .condition_expression("full_at > :now AND full_at <= :latest")
            .expression_attribute_values(":time", number(time))
            .expression_attribute_values(":latest", number(latest.saturating_sub(time)))
        } else {
            self.update_limit(name, "SET full_at = :next, #ttl = :ttl REMOVE passed_over", now)
                .condition_expression("attribute_not_exists(full_at) OR full_at <= :now")
                .expression_attribute_values(":next", number(now_at.saturating_add(time)))
        };
        let update = update
            .expression_attribute_values(":now", number(now_at))
            .return_values(ReturnValue::AllOld);
        let Ok(done) = condition_outcome(OPERATION, name, update.send().await)? else {
            return Ok(None);
        };
        let before = done.attributes.filter(|item| !item.is_empty());
        before.map_or(Ok(Used::default()), |item| from_item(OPERATION, item)).map(Some)
    }

    async fn count_refusal(&self, name: &str, now: Timestamp) -> Result<(), StoreError> {
        let update = self
            .update_limit(name, "SET #ttl = :ttl ADD passed_over :one", now)
            .expression_attribute_values(":one", number(1));
        condition_outcome(OPERATION, name, update.send().await)?.ok();
        Ok(())
    }

    /// An update that also renews the item's expiry: a full bucket holds no information except its
    /// count of refusals, so the item expires after a day.
    fn update_limit(
        &self,
        name: &str,
        expression: &str,
        now: Timestamp,
    ) -> UpdateItemFluentBuilder {
        let life = SignedDuration::from_hours(24);
        self.client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::api_rate_limit(name))))
            .update_expression(expression)
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_values(":ttl", number((now + life).as_second()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_burst_and_one_more_after_each_interval_are_allowed_and_a_flood_delays_none_of_them() {
        let limit = RateLimit { burst: 3, interval: Duration::from_secs(2) };
        let mut full_at = 0;
        let mut allowed = Vec::new();
        // Ten times a second, for 10 s.
        for tenth in 1_000..1_100 {
            let now = tenth * SECOND / 10;
            match limit.take(1, full_at, now) {
                Ok(next) => {
                    full_at = next;
                    allowed.push(tenth - 1_000);
                }
                Err(pause) => assert!(pause <= limit.interval, "{pause:?}"),
            }
        }
        assert_eq!(allowed, [0, 1, 2, 20, 40, 60, 80]);
        let late = 1_000 * SECOND;
        assert!((0..3).all(|_| limit.take(1, full_at, late).map(|next| full_at = next).is_ok()));
        assert_eq!(limit.take(1, full_at, late), Err(Duration::from_secs(2)));
        assert_eq!(limit.take(3, full_at, late), Err(Duration::from_secs(6)));
    }
}
