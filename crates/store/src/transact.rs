//! Transactions: all items or none, and which conditions failed.

use crate::conditional::Item;
use crate::error::{ErrorKind, is_throttle};
use crate::{StoreError, Table, backoff};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};
use uuid::Uuid;

/// How often a transaction is sent before the caller gets [`StoreError::Throttled`]. With the
/// pauses of [`backoff`] that takes about a second and a half: less than a caller of the API waits.
const MAX_SENDS: u32 = 8;

/// The transaction wrote nothing, because these conditions failed.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelledBy {
    failed: Vec<(usize, Option<Item>)>,
}

impl CancelledBy {
    /// Position, in the request, of the first item whose condition failed.
    pub fn first(&self) -> usize {
        // `from_reasons` guarantees that there is at least one.
        self.failed.first().map_or(0, |(index, _)| *index)
    }

    /// Whether the condition of the item at `index` failed.
    pub fn includes(&self, index: usize) -> bool {
        self.failed.iter().any(|(failed, _)| *failed == index)
    }

    /// The existing item at `index`, if the request asked for it
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

/// Result of one send of a transaction.
enum SendResult {
    Done,
    Cancelled(CancelledBy),
    /// May succeed on a retry: another transaction locks an item, the table is throttled, or no
    /// answer came.
    Retry(StoreError),
    Failed(StoreError),
}

impl Table {
    /// Writes all of `items` or none, at twice the write units of single writes.
    ///
    /// Retries after a conflict with another transaction, a throttle or a lost answer, with one
    /// `ClientRequestToken`: if an earlier send was applied, DynamoDB returns its result and writes
    /// nothing twice. The token protects for ten minutes; the condition of an item protects after
    /// that.
    ///
    /// # Errors
    ///
    /// [`StoreError::Throttled`] or [`StoreError::Unavailable`] after the last retry;
    /// [`StoreError::Backend`] at once if a retry does not help.
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
            match classify(operation, thing, result.map(drop)) {
                SendResult::Done => return Ok(Ok(())),
                SendResult::Cancelled(by) => return Ok(Err(by)),
                SendResult::Failed(error) => return Err(error),
                SendResult::Retry(error) if sends == MAX_SENDS => return Err(error),
                SendResult::Retry(error) => {
                    tracing::debug!(%error, operation, thing, sends, "retrying a transaction");
                    backoff::pause(sends - 1).await;
                }
            }
        }
    }
}

fn classify(
    operation: &'static str,
    thing: &str,
    result: Result<(), SdkError<TransactWriteItemsError>>,
) -> SendResult {
    use TransactWriteItemsError::TransactionCanceledException;
    let Err(error) = result else { return SendResult::Done };
    if let Some(TransactionCanceledException(cancelled)) = error.as_service_error() {
        let reasons = cancelled.cancellation_reasons();
        // A failed condition decides, even beside a conflict.
        if let Some(by) = CancelledBy::from_reasons(reasons) {
            return SendResult::Cancelled(by);
        }
        let codes = || reasons.iter().filter_map(CancellationReason::code);
        let source = codes().collect::<Vec<_>>().join(", ").into();
        let thing = thing.to_owned();
        let passing = |code| code == "None" || code == "TransactionConflict" || is_throttle(code);
        return if !reasons.is_empty() && codes().all(passing) {
            SendResult::Retry(StoreError::Throttled { operation, thing, source })
        } else {
            SendResult::Failed(StoreError::Backend { operation, thing, source })
        };
    }
    let kind = ErrorKind::of(&error);
    let error = StoreError::sdk(operation, thing, error);
    match kind {
        ErrorKind::Throttled | ErrorKind::Unavailable => SendResult::Retry(error),
        ErrorKind::Refused => SendResult::Failed(error),
    }
}
