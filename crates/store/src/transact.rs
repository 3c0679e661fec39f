//! Transactions: all items or none, and which condition stood in the way.

use crate::conditional::Item;
use crate::error::{Weight, is_throttle};
use crate::{StoreError, Table, backoff};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};
use uuid::Uuid;

/// How often a transaction is sent before its caller hears that the table is busy. With the
/// pauses of [`backoff`] that is about a second and a half: less than a caller of the API waits.
const MAX_SENDS: u32 = 8;

/// The transaction wrote nothing, because these conditions were not met.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelledBy {
    failed: Vec<(usize, Option<Item>)>,
}

impl CancelledBy {
    /// Position, in the request, of the first item whose condition was not met.
    pub fn first(&self) -> usize {
        // There is at least one: `from_reasons` gives none otherwise.
        self.failed.first().map_or(0, |(index, _)| *index)
    }

    /// Whether the condition of the item at `index` was one of them.
    pub fn includes(&self, index: usize) -> bool {
        self.failed.iter().any(|(failed, _)| *failed == index)
    }

    /// The item in the way at `index`, if the request asked for it
    /// (`ReturnValuesOnConditionCheckFailure = ALL_OLD`).
    pub fn item(&self, index: usize) -> Option<&Item> {
        self.failed.iter().find(|(failed, _)| *failed == index)?.1.as_ref()
    }

    fn from_reasons(reasons: &[CancellationReason]) -> Option<Self> {
        let failed: Vec<_> = reasons
            .iter()
            .enumerate()
            .filter(|(_, reason)| reason.code() == Some("ConditionalCheckFailed"))
            .map(|(index, reason)| (index, reason.item.clone()))
            .collect();
        (!failed.is_empty()).then_some(Self { failed })
    }
}

/// What one sending of a transaction came to.
enum Sent {
    Done,
    Cancelled(CancelledBy),
    /// Worth another try: another transaction had an item, or the table was busy, or no answer came.
    Again(StoreError),
    Failed(StoreError),
}

impl Table {
    /// Writes all of `items` or none, at twice the write units of single writes.
    ///
    /// A conflict with another transaction, a throttle and a lost answer are met by sending the
    /// same again, under one `ClientRequestToken`: if an earlier sending had landed, DynamoDB
    /// answers as it did then and writes nothing twice (for ten minutes; the lasting guard is the
    /// condition of an item).
    ///
    /// # Errors
    ///
    /// [`StoreError::Throttled`] or [`StoreError::Unavailable`] after the last try;
    /// [`StoreError::Backend`] at once for what no repetition mends.
    pub async fn transact(
        &self,
        operation: &'static str,
        thing: &str,
        items: Vec<TransactWriteItem>,
    ) -> Result<Result<(), CancelledBy>, StoreError> {
        let token = Uuid::new_v4().to_string();
        let request = self
            .client()
            .transact_write_items()
            .set_transact_items(Some(items))
            .client_request_token(token);
        let mut sends = 0;
        loop {
            sends += 1;
            let result = request.clone().send().await;
            match judge(operation, thing, result.map(drop)) {
                Sent::Done => return Ok(Ok(())),
                Sent::Cancelled(by) => return Ok(Err(by)),
                Sent::Failed(error) => return Err(error),
                Sent::Again(error) if sends == MAX_SENDS => return Err(error),
                Sent::Again(error) => {
                    tracing::debug!(%error, operation, thing, sends, "sending a transaction again");
                    backoff::pause(sends - 1).await;
                }
            }
        }
    }
}

fn judge(
    operation: &'static str,
    thing: &str,
    result: Result<(), SdkError<TransactWriteItemsError>>,
) -> Sent {
    use TransactWriteItemsError::TransactionCanceledException;
    let Err(error) = result else { return Sent::Done };
    if let Some(TransactionCanceledException(cancelled)) = error.as_service_error() {
        let reasons = cancelled.cancellation_reasons();
        // Even beside a conflict: a condition that was not met is known not to have been met.
        if let Some(by) = CancelledBy::from_reasons(reasons) {
            return Sent::Cancelled(by);
        }
        let codes = || reasons.iter().filter_map(CancellationReason::code);
        let source = codes().collect::<Vec<_>>().join(", ").into();
        let thing = thing.to_owned();
        let passing = |code| code == "None" || code == "TransactionConflict" || is_throttle(code);
        return if !reasons.is_empty() && codes().all(passing) {
            Sent::Again(StoreError::Throttled { operation, thing, source })
        } else {
            Sent::Failed(StoreError::Backend { operation, thing, source })
        };
    }
    let weight = Weight::of(&error);
    let error = StoreError::sdk(operation, thing, error);
    match weight {
        Weight::Throttled | Weight::Unavailable => Sent::Again(error),
        Weight::Refused => Sent::Failed(error),
    }
}
