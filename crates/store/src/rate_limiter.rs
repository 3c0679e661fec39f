//! Rate limiters that all launchers share: one item for each rate.
//!
//! The item holds the time at which the bucket will be full again (generic cell rate algorithm,
//! ITU-T I.371, annex A). Each permit moves that time by one interval. A permit may be taken while
//! that time is less than a whole bucket ahead of now; if it is further ahead, the launcher waits.
//!
//! A launcher that would have to wait too long gets no permit but a retry time. Retry times are one
//! interval apart and stored in a second attribute, so that a thousand refused launchers return one
//! after the other, and not together. A retry time is not a permit: if its launcher never returns,
//! no capacity is lost.

use crate::conditional::{ConditionFailed, Item, condition_outcome};
use crate::items::{key_item, number};
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure,
};
use jiff::Timestamp;
use std::time::Duration;

const OPERATION: &str = "take a permit of";
/// How often one call retries when concurrent callers change the item.
const MAX_TRIES: u32 = 8;
/// Microseconds since 1970: when the bucket will be full.
const FULL_AT: &str = "full_at";
/// Microseconds since 1970: the latest retry time that was given out.
const LAST_RETRY_AT: &str = "asked_until";

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Most calls at once; at least 1.
    pub burst: u32,
    /// Calls that each second adds; at least 1.
    pub per_second: u32,
}

/// Answer to a request for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// A permit is taken. Use it after this time.
    Granted(Duration),
    /// No permit is taken. Retry after this time.
    RetryAfter(Duration),
}

impl Bucket {
    /// Microseconds between two permits.
    fn interval(self) -> i64 {
        1_000_000 / i64::from(self.per_second.max(1))
    }

    /// How far ahead of now `full_at` may be for a permit without a wait, in microseconds.
    fn tolerance(self) -> i64 {
        self.interval() * i64::from(self.burst.max(1) - 1)
    }
}

impl Table {
    /// Takes the next permit of the rate `name`, if it needs a wait of at most `max_wait`. One or
    /// two write units for a permit, one or two more without one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn acquire_permit(
        &self,
        name: &str,
        bucket: Bucket,
        now: Timestamp,
        max_wait: Duration,
    ) -> Result<Permit, StoreError> {
        let now = now.as_microsecond();
        let max_wait = i64::try_from(max_wait.as_micros()).unwrap_or(i64::MAX / 4);
        let latest = now + bucket.tolerance() + max_wait;
        for _ in 0..MAX_TRIES {
            let full_at = match self.take_from_partial(name, bucket, now, latest).await? {
                Ok(full_at) => {
                    let ahead = full_at - bucket.interval() - bucket.tolerance() - now;
                    return Ok(Permit::Granted(micros(ahead)));
                }
                Err(refused) => refused.item.as_ref().and_then(|item| microseconds(item, FULL_AT)),
            };
            if let Some(full_at) = full_at.filter(|at| *at > latest) {
                // When the permit that is not taken here would need a wait of `max_wait`.
                let earliest = full_at - bucket.tolerance() - max_wait;
                return Ok(Permit::RetryAfter(
                    self.reserve_retry_time(name, bucket, now, earliest).await?,
                ));
            }
            if full_at.is_none_or(|at| at <= now) && self.take_from_full(name, bucket, now).await? {
                return Ok(Permit::Granted(Duration::ZERO));
            }
        }
        // Concurrent callers won all retries, so the next permit is not far.
        Ok(Permit::RetryAfter(micros(bucket.interval().max(100_000))))
    }

    /// Takes a permit of a bucket that is not full. Returns the new `full_at`.
    async fn take_from_partial(
        &self,
        name: &str,
        bucket: Bucket,
        now: i64,
        latest: i64,
    ) -> Result<Result<i64, ConditionFailed>, StoreError> {
        let update = self
            .client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::rate_limiter(name))))
            .update_expression(format!("SET {FULL_AT} = {FULL_AT} + :step"))
            .condition_expression(format!("{FULL_AT} > :now AND {FULL_AT} <= :latest"))
            .expression_attribute_values(":step", number(bucket.interval()))
            .expression_attribute_values(":now", number(now))
            .expression_attribute_values(":latest", number(latest))
            .return_values(ReturnValue::UpdatedNew)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        let done = condition_outcome(OPERATION, name, update.send().await)?;
        let Ok(output) = done else { return Ok(done.map(|_| 0)) };
        let full_at = output.attributes.as_ref().and_then(|item| microseconds(item, FULL_AT));
        full_at
            .map(Ok)
            .ok_or_else(|| StoreError::corrupt(OPERATION, name, format!("no `{FULL_AT}` in it")))
    }

    /// Takes a permit of a full bucket. `false` if it is no longer full.
    async fn take_from_full(
        &self,
        name: &str,
        bucket: Bucket,
        now: i64,
    ) -> Result<bool, StoreError> {
        let update = self
            .client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::rate_limiter(name))))
            .update_expression(format!("SET {FULL_AT} = :next"))
            .condition_expression(format!("attribute_not_exists({FULL_AT}) OR {FULL_AT} <= :now"))
            .expression_attribute_values(":next", number(now + bucket.interval()))
            .expression_attribute_values(":now", number(now));
        Ok(condition_outcome(OPERATION, name, update.send().await)?.is_ok())
    }

    /// Gives out a retry time: after all retry times of other callers, and not before `earliest`.
    async fn reserve_retry_time(
        &self,
        name: &str,
        bucket: Bucket,
        now: i64,
        earliest: i64,
    ) -> Result<Duration, StoreError> {
        let step = bucket.interval();
        for (first, condition) in [
            (None, format!("{LAST_RETRY_AT} >= :earliest")),
            (
                Some(earliest.max(now) + step),
                format!("attribute_not_exists({LAST_RETRY_AT}) OR {LAST_RETRY_AT} < :earliest"),
            ),
        ] {
            let update = self
                .client()
                .update_item()
                .table_name(self.name())
                .set_key(Some(key_item(&keys::rate_limiter(name))))
                .condition_expression(condition)
                .expression_attribute_values(":earliest", number(earliest.max(now)))
                .return_values(ReturnValue::UpdatedNew);
            let update = match first {
                None => update
                    .update_expression(format!("SET {LAST_RETRY_AT} = {LAST_RETRY_AT} + :step"))
                    .expression_attribute_values(":step", number(step)),
                Some(first) => update
                    .update_expression(format!("SET {LAST_RETRY_AT} = :first"))
                    .expression_attribute_values(":first", number(first)),
            };
            if let Ok(output) = condition_outcome(OPERATION, name, update.send().await)? {
                let at =
                    output.attributes.as_ref().and_then(|item| microseconds(item, LAST_RETRY_AT));
                return Ok(micros(at.unwrap_or(earliest) - now));
            }
        }
        // A concurrent caller has set a first retry time.
        Ok(micros(earliest.max(now) + step - now))
    }
}

fn microseconds(item: &Item, name: &str) -> Option<i64> {
    match item.get(name) {
        Some(AttributeValue::N(text)) => text.parse().ok(),
        _ => None,
    }
}

fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or_default())
}
