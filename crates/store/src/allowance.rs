//! How often something may happen that anyone on the network can cause, such as a new agent that asks to be adopted.
//!
//! A token bucket as in [`crate::pace`], with one difference: what is refused changes nothing. So a flood does not
//! use up what comes after it, and the time after which a caller may ask again is never longer than one interval.

use crate::conditional::settle;
use crate::items::{from_item, key_item, number};
use crate::table::TTL;
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::time::Duration;

const OPERATION: &str = "use the allowance of";
/// How often one call looks again because others were faster.
const MAX_TRIES: u32 = 8;

/// So much at once, and one more after each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How often at once, at least 1.
    pub burst: u32,
    /// After how long one more is allowed.
    pub interval: Duration,
}

/// Whether it may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// It may. So many were passed over since the last one, where these are counted.
    Yes {
        /// See [`Table::allow_or_count`].
        passed_over: u64,
    },
    /// Not now, but after this time at the earliest.
    After(Duration),
}

/// What is stored of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
struct Used {
    /// When all of the burst is allowed again, in microseconds.
    #[serde(default)]
    full_at: i64,
    #[serde(default)]
    passed_over: u64,
}

impl Allowance {
    fn interval(self) -> i64 {
        i64::try_from(self.interval.as_micros()).unwrap_or(i64::MAX / 4).max(1)
    }

    /// How long `units` take to come back, in microseconds.
    fn time_of(self, units: u32) -> i64 {
        self.interval().saturating_mul(units.into())
    }

    /// When the burst is full again if so much is used now; or how long there is not so much.
    fn take(self, units: u32, full_at: i64, now: i64) -> Result<i64, Duration> {
        let next = full_at.max(now).saturating_add(self.time_of(units));
        let latest = now.saturating_add(self.time_of(self.burst.max(1)));
        if next <= latest {
            return Ok(next);
        }
        Err(Duration::from_micros(u64::try_from(next - latest).unwrap_or_default()))
    }
}

impl Table {
    /// Uses the allowance `name` once, if something is left of it. One read and one write unit; a refusal reads only.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn allow(
        &self,
        name: &str,
        allowance: Allowance,
        now: Timestamp,
    ) -> Result<Allowed, StoreError> {
        self.allow_units(name, allowance, 1, now).await
    }

    /// Uses so many units of the allowance at once, if that much is left.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the table cannot be read or written.
    pub async fn allow_units(
        &self,
        name: &str,
        allowance: Allowance,
        units: u32,
        now: Timestamp,
    ) -> Result<Allowed, StoreError> {
        self.use_allowance(name, allowance, units, now, false).await
    }

    /// Gives units back that were allowed and not needed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the table cannot be read or written.
    pub async fn give_back(
        &self,
        name: &str,
        allowance: Allowance,
        units: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = self
            .update_allowance(name, "SET full_at = full_at - :time, #ttl = :ttl", now)
            .condition_expression("attribute_exists(full_at)")
            .expression_attribute_values(":time", number(allowance.time_of(units)));
        settle(OPERATION, name, update.send().await)?.ok();
        Ok(())
    }

    /// The same, and what is refused is counted, which the next that is allowed learns. A refusal writes one unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn allow_or_count(
        &self,
        name: &str,
        allowance: Allowance,
        now: Timestamp,
    ) -> Result<Allowed, StoreError> {
        self.use_allowance(name, allowance, 1, now, true).await
    }

    async fn use_allowance(
        &self,
        name: &str,
        allowance: Allowance,
        units: u32,
        now: Timestamp,
        counts: bool,
    ) -> Result<Allowed, StoreError> {
        for _ in 0..MAX_TRIES {
            let found: Option<Used> = self.read(OPERATION, &keys::allowance(name)).await?;
            let used = found.unwrap_or_default();
            if let Err(pause) = allowance.take(units, used.full_at, now.as_microsecond()) {
                if counts {
                    self.count_refusal(name, now).await?;
                }
                return Ok(Allowed::After(pause));
            }
            if let Some(before) = self.take(name, allowance, units, used.full_at, now).await? {
                return Ok(Allowed::Yes { passed_over: before.passed_over });
            }
        }
        // Many others use it at this very moment.
        Ok(Allowed::After(allowance.interval))
    }

    /// Takes so many units where all of the burst was there, or was not, as `full_at` says. It does not matter who else
    /// takes some meanwhile, as long as that stays so and enough is left. What was stored before.
    async fn take(
        &self,
        name: &str,
        allowance: Allowance,
        units: u32,
        full_at: i64,
        now: Timestamp,
    ) -> Result<Option<Used>, StoreError> {
        let (now_at, time) = (now.as_microsecond(), allowance.time_of(units));
        let latest = now_at.saturating_add(allowance.time_of(allowance.burst.max(1)));
        let update = if full_at > now_at {
            self.update_allowance(
                name,
                "SET full_at = full_at + :time, #ttl = :ttl REMOVE passed_over",
                now,
            )
            .condition_expression("full_at > :now AND full_at <= :latest")
            .expression_attribute_values(":time", number(time))
            .expression_attribute_values(":latest", number(latest.saturating_sub(time)))
        } else {
            self.update_allowance(name, "SET full_at = :next, #ttl = :ttl REMOVE passed_over", now)
                .condition_expression("attribute_not_exists(full_at) OR full_at <= :now")
                .expression_attribute_values(":next", number(now_at.saturating_add(time)))
        };
        let update = update
            .expression_attribute_values(":now", number(now_at))
            .return_values(ReturnValue::AllOld);
        let Ok(done) = settle(OPERATION, name, update.send().await)? else { return Ok(None) };
        let before = done.attributes.filter(|item| !item.is_empty());
        before.map_or(Ok(Used::default()), |item| from_item(OPERATION, item)).map(Some)
    }

    async fn count_refusal(&self, name: &str, now: Timestamp) -> Result<(), StoreError> {
        let update = self
            .update_allowance(name, "SET #ttl = :ttl ADD passed_over :one", now)
            .expression_attribute_values(":one", number(1));
        settle(OPERATION, name, update.send().await)?.ok();
        Ok(())
    }

    /// One that is full again says nothing, but for what it counts: it goes after a day.
    fn update_allowance(
        &self,
        name: &str,
        expression: &str,
        now: Timestamp,
    ) -> UpdateItemFluentBuilder {
        let life = SignedDuration::from_hours(24);
        self.client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::allowance(name))))
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
        let allowance = Allowance { burst: 3, interval: Duration::from_secs(2) };
        let mut full_at = 0;
        let mut allowed = Vec::new();
        // Ten times a second, for 10 s.
        for tenth in 1_000..1_100 {
            let now = tenth * SECOND / 10;
            match allowance.take(1, full_at, now) {
                Ok(next) => {
                    full_at = next;
                    allowed.push(tenth - 1_000);
                }
                Err(pause) => assert!(pause <= allowance.interval, "{pause:?}"),
            }
        }
        assert_eq!(allowed, [0, 1, 2, 20, 40, 60, 80]);
        let late = 1_000 * SECOND;
        assert!(
            (0..3).all(|_| allowance.take(1, full_at, late).map(|next| full_at = next).is_ok())
        );
        assert_eq!(allowance.take(1, full_at, late), Err(Duration::from_secs(2)));
        assert_eq!(allowance.take(3, full_at, late), Err(Duration::from_secs(6)));
    }
}
