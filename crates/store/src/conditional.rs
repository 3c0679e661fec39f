//! Conditional writes: "somebody else was first" is an answer, not an error.

use crate::StoreError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::{
    delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError,
};
use aws_sdk_dynamodb::types::{AttributeValue, error::ConditionalCheckFailedException};
use std::collections::HashMap;

/// An item as DynamoDB gives it.
pub type Item = HashMap<String, AttributeValue>;

/// The condition of a write was not met, and nothing was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The item that stands in the way, if the request asked for it
    /// (`ReturnValuesOnConditionCheckFailure = ALL_OLD`) and there is one.
    pub item: Option<Item>,
}

/// An error that may say that a condition was not met.
pub trait ConditionalError:
    std::error::Error + ProvideErrorMetadata + Send + Sync + 'static
{
    /// What it says about the condition, if it does.
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

/// Splits what a conditional write gave: done, refused by its condition, or failed.
///
/// The SDK repeats a write whose answer was lost. If the first one had landed, the repetition may
/// be refused; a condition must therefore hold for its own result too, or its caller must look at
/// [`Refused::item`] before it says that the race is lost.
///
/// # Errors
///
/// Whatever [`StoreError::sdk`] makes of a failure that is not about the condition.
pub fn settle<T, E: ConditionalError>(
    operation: &'static str,
    thing: impl Into<String>,
    result: Result<T, SdkError<E>>,
) -> Result<Result<T, Refused>, StoreError> {
    match result {
        Ok(output) => Ok(Ok(output)),
        Err(error) => match error.as_service_error().and_then(E::failed_condition) {
            Some(failed) => Ok(Err(Refused { item: failed.item.clone() })),
            None => Err(StoreError::sdk(operation, thing, error)),
        },
    }
}
