//! Turns at a rate that all launchers share: one item for each rate.
//!
//! The item holds the time at which the bucket will be full again (generic cell rate algorithm, ITU-T
//! I.371, annex A): each turn moves it on by one interval. A turn may be taken while it is less than
//! a whole bucket ahead of now; one that is further ahead is waited for.
//!
//! Whoever would wait too long takes no turn, and is told when to ask again. These times are handed
//! out one interval apart, in a second attribute. So a thousand that are turned away come back one
//! after the other, and not together. Such a time is no turn: if its owner never comes, nothing is
//! lost.

use crate::conditional::{Item, Refused, settle};
use crate::items::{key_item, number};
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure,
};
use jiff::Timestamp;
use std::time::Duration;

const OPERATION: &str = "take a turn of";
/// How often one call looks again because others took turns meanwhile.
const MAX_TRIES: u32 = 8;
/// Microseconds: when the bucket will be full.
const FULL_AT: &str = "full_at";
/// Microseconds: when the last one of those that were turned away comes again.
const ASKED_UNTIL: &str = "asked_until";

/// A bucket of calls that fills up again as time goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Calls that may be made at once, at least 1.
    pub burst: u32,
    /// Calls that each second adds, at least 1.
    pub per_second: u32,
}

/// A turn at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is taken: to be used after this time.
    Taken(Duration),
    /// It is not taken: to be asked for again after this time.
    Later(Duration),
}

impl Bucket {
    /// Microseconds between two turns.
    fn interval(self) -> i64 {
        1_000_000 / i64::from(self.per_second.max(1))
    }

    /// How far ahead of now the bucket may be full again, for a turn that is good at once.
    fn tolerance(self) -> i64 {
        self.interval() * i64::from(self.burst.max(1) - 1)
    }
}

impl Table {
    /// Takes the next turn of the rate `name`, if it is not further away than `patience`. One or two
    /// write units for a turn, one or two more for none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn take_turn(
        &self,
        name: &str,
        bucket: Bucket,
        now: Timestamp,
        patience: Duration,
    ) -> Result<Turn, StoreError> {
        let now = now.as_microsecond();
        let patience = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX / 4);
        let latest = now + bucket.tolerance() + patience;
        for _ in 0..MAX_TRIES {
            let full_at = match self.move_on(name, bucket, now, latest).await? {
                Ok(full_at) => {
                    let ahead = full_at - bucket.interval() - bucket.tolerance() - now;
                    return Ok(Turn::Taken(micros(ahead)));
                }
                Err(refused) => refused.item.as_ref().and_then(|item| microseconds(item, FULL_AT)),
            };
            if let Some(full_at) = full_at.filter(|at| *at > latest) {
                // When the turn that is not taken here would come within the patience.
                let near = full_at - bucket.tolerance() - patience;
                return Ok(Turn::Later(self.ask_later(name, bucket, now, near).await?));
            }
            if full_at.is_none_or(|at| at <= now) && self.begin(name, bucket, now).await? {
                return Ok(Turn::Taken(Duration::ZERO));
            }
        }
        // So many others had their turns meanwhile that the next one is not far.
        Ok(Turn::Later(micros(bucket.interval().max(100_000))))
    }

    /// Takes a turn of a bucket that is not full. Answers when it will be full then.
    async fn move_on(
        &self,
        name: &str,
        bucket: Bucket,
        now: i64,
        latest: i64,
    ) -> Result<Result<i64, Refused>, StoreError> {
        let update = self
            .client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::pace(name))))
            .update_expression(format!("SET {FULL_AT} = {FULL_AT} + :step"))
            .condition_expression(format!("{FULL_AT} > :now AND {FULL_AT} <= :latest"))
            .expression_attribute_values(":step", number(bucket.interval()))
            .expression_attribute_values(":now", number(now))
            .expression_attribute_values(":latest", number(latest))
            .return_values(ReturnValue::UpdatedNew)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        let done = settle(OPERATION, name, update.send().await)?;
        let Ok(output) = done else { return Ok(done.map(|_| 0)) };
        let full_at = output.attributes.as_ref().and_then(|item| microseconds(item, FULL_AT));
        full_at
            .map(Ok)
            .ok_or_else(|| StoreError::corrupt(OPERATION, name, format!("no `{FULL_AT}` in it")))
    }

    /// Takes a turn of a full bucket. `false` if it is not full any more.
    async fn begin(&self, name: &str, bucket: Bucket, now: i64) -> Result<bool, StoreError> {
        let update = self
            .client()
            .update_item()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::pace(name))))
            .update_expression(format!("SET {FULL_AT} = :next"))
            .condition_expression(format!("attribute_not_exists({FULL_AT}) OR {FULL_AT} <= :now"))
            .expression_attribute_values(":next", number(now + bucket.interval()))
            .expression_attribute_values(":now", number(now));
        Ok(settle(OPERATION, name, update.send().await)?.is_ok())
    }

    /// When to ask again: after all others who were told so, and not before `near`.
    async fn ask_later(
        &self,
        name: &str,
        bucket: Bucket,
        now: i64,
        near: i64,
    ) -> Result<Duration, StoreError> {
        let step = bucket.interval();
        for (first, condition) in [
            (None, format!("{ASKED_UNTIL} >= :near")),
            (
                Some(near.max(now) + step),
                format!("attribute_not_exists({ASKED_UNTIL}) OR {ASKED_UNTIL} < :near"),
            ),
        ] {
            let update = self
                .client()
                .update_item()
                .table_name(self.name())
                .set_key(Some(key_item(&keys::pace(name))))
                .condition_expression(condition)
                .expression_attribute_values(":near", number(near.max(now)))
                .return_values(ReturnValue::UpdatedNew);
            let update = match first {
                None => update
                    .update_expression(format!("SET {ASKED_UNTIL} = {ASKED_UNTIL} + :step"))
                    .expression_attribute_values(":step", number(step)),
                Some(first) => update
                    .update_expression(format!("SET {ASKED_UNTIL} = :first"))
                    .expression_attribute_values(":first", number(first)),
            };
            if let Ok(output) = settle(OPERATION, name, update.send().await)? {
                let at =
                    output.attributes.as_ref().and_then(|item| microseconds(item, ASKED_UNTIL));
                return Ok(micros(at.unwrap_or(near) - now));
            }
        }
        // Another one was first, after us.
        Ok(micros(near.max(now) + step - now))
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
