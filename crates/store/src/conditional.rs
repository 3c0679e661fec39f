//! Conditional writes: a lost race is an answer, not an error.

use crate::StoreError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::{
    delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError,
};
use aws_sdk_dynamodb::types::{AttributeValue, error::ConditionalCheckFailedException};
use std::collections::HashMap;

/// A DynamoDB item: attribute values by name.
pub type Item = HashMap<String, AttributeValue>;

/// The condition of a write failed, and nothing was written.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionFailed {
    /// The existing item, if the request asked for it (`ReturnValuesOnConditionCheckFailure =
    /// ALL_OLD`) and there is one.
    pub item: Option<Item>,
}

/// An SDK error that may report a failed condition.
pub trait ConditionalError:
    std::error::Error + ProvideErrorMetadata + Send + Sync + 'static
{
    /// The failed condition, if the error reports one.
    fn failed_condition(&self) -> Option<&ConditionalCheckFailedException>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl ConditionalError for $error {
            fn failed_condition(&self) -> Option<&ConditionalCheckFailedException> {
                match self {
                    Self::ConditionalCheckFailedException(failed) => Some(failed),
                    _ => None,
                }
            }
        }
    )*};
}
conditional!(PutItemError, UpdateItemError, DeleteItemError);

/// Splits the result of a conditional write: done, condition failed, or error.
///
/// The SDK retries a write whose answer was lost. If the first request was applied, the condition
/// of the retry may fail. So a condition must hold for the write's own result too, or the caller
/// must check [`ConditionFailed::item`] before it reports a lost race.
///
/// # Errors
///
/// The error that [`StoreError::sdk`] makes of every failure other than a failed condition.
pub fn condition_outcome<T, E: ConditionalError>(
    operation: &'static str,
    thing: impl Into<String>,
    result: Result<T, SdkError<E>>,
) -> Result<Result<T, ConditionFailed>, StoreError> {
    match result {
        Ok(output) => Ok(Ok(output)),
        Err(error) => match error.as_service_error().and_then(E::failed_condition) {
            Some(failed) => Ok(Err(ConditionFailed { item: failed.item.clone() })),
            None => Err(StoreError::sdk(operation, thing, error)),
        },
    }
}
