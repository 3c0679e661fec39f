//! What can go wrong between Canyon and its table or object store.
//!
//! A condition that was not met is no error: it is one of the answers (see [`crate::conditional`]).

use crate::item_size::MAX_ITEM;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::RequestId as _;
use std::path::PathBuf;

/// The cause of an error, for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why the store could not do what it was asked. `operation` reads like "create runner", `thing`
/// like `my-runner`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// More was asked than the table or object store gives just now.
    #[error("could not {operation} `{thing}`: the store is busy; try again in a moment")]
    Throttled {
        /// What was tried.
        operation: &'static str,
        /// On what.
        thing: String,
        /// The last refusal.
        #[source]
        source: BoxError,
    },
    /// No answer. A write may have happened or not.
    #[error("could not {operation} `{thing}`: the store did not answer; try again")]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// On what.
        thing: String,
        /// What was seen instead of an answer.
        #[source]
        source: BoxError,
    },
    /// An item that this version cannot read.
    #[error(
        "could not {operation} `{key}`: the stored item is not in a form that this version reads; \
         was it written by a newer version, or by hand?"
    )]
    Corrupt {
        /// What was tried.
        operation: &'static str,
        /// The item's key.
        key: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The store refused the request for a reason that no repetition removes.
    #[error("could not {operation} `{thing}`: the store refused the request")]
    Backend {
        /// What was tried.
        operation: &'static str,
        /// On what.
        thing: String,
        /// The refusal.
        #[source]
        source: BoxError,
    },
    /// The item has more bytes than [`MAX_ITEM`]. Nothing was written.
    #[error(
        "could not {operation} `{thing}`: it would have {bytes} bytes, most of them in `{part}`, and at most {MAX_ITEM} \
         are stored"
    )]
    TooLarge {
        /// What was tried.
        operation: &'static str,
        /// On what.
        thing: String,
        /// The attribute with the most bytes.
        part: String,
        /// The bytes of the item.
        bytes: usize,
    },
    /// The database file cannot be opened.
    #[error("could not open the database `{}`; check that it is a Canyon database and that you may write there", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// Another process has the database file open.
    #[error("the database `{}` is in use by another process; stop that one, or choose another data directory", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A table of this name has other keys or indexes than Canyon's.
    #[error("table `{table}` is not Canyon's: {difference}; give another name or delete it")]
    WrongShape {
        /// The table.
        table: String,
        /// The first difference found.
        difference: String,
    },
}

impl StoreError {
    /// Whether the same request may succeed in a moment.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Throttled { .. } | Self::Unavailable { .. } => true,
            Self::Corrupt { .. }
            | Self::Backend { .. }
            | Self::TooLarge { .. }
            | Self::Open { .. }
            | Self::InUse { .. }
            | Self::WrongShape { .. } => false,
        }
    }

    /// An item at `key` that does not parse.
    pub fn corrupt(
        operation: &'static str,
        key: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        Self::Corrupt { operation, key: key.into(), source: source.into() }
    }

    /// Sorts a failure that the SDK reports. A failed condition is for [`crate::conditional`] to
    /// see first; here it would be a refusal like any other.
    pub fn sdk<E>(operation: &'static str, thing: impl Into<String>, error: SdkError<E>) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let thing = thing.into();
        let weight = Weight::of(&error);
        let source = cause(error);
        match weight {
            Weight::Throttled => Self::Throttled { operation, thing, source },
            Weight::Unavailable => Self::Unavailable { operation, thing, source },
            Weight::Refused => Self::Backend { operation, thing, source },
        }
    }
}

/// How a failure is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Throttled,
    Unavailable,
    Refused,
}

impl Weight {
    pub(crate) fn of<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Self {
        match error {
            SdkError::ServiceError(context) => match context.err().code() {
                Some(code) if is_throttle(code) => Self::Throttled,
                Some("InternalServerError" | "InternalServerErrorException") => Self::Unavailable,
                _ if context.raw().status().as_u16() >= 500 => Self::Unavailable,
                _ => Self::Refused,
            },
            SdkError::TimeoutError(_)
            | SdkError::DispatchFailure(_)
            | SdkError::ResponseError(_) => Self::Unavailable,
            // A request that could not be built will not build the next time either.
            _ => Self::Refused,
        }
    }
}

/// The codes by which DynamoDB asks for patience, as errors and as reasons of a cancelled
/// transaction (Developer Guide, "Error handling with DynamoDB"; API reference of
/// `TransactWriteItems`).
pub(crate) fn is_throttle(code: &str) -> bool {
    matches!(
        code,
        "ThrottlingException"
            | "ThrottlingError"
            | "ProvisionedThroughputExceededException"
            | "ProvisionedThroughputExceeded"
            | "RequestLimitExceeded"
            | "LimitExceededException"
            | "TransactionConflictException"
            | "TransactionInProgressException"
            | "ReplicatedWriteConflictException"
    )
}

/// The message, code and request id, without the raw response: that holds item contents.
fn cause<E>(error: SdkError<E>) -> BoxError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(context) => {
            let meta = context.err().meta();
            let code = meta.code().unwrap_or("no code");
            let message = meta.message().unwrap_or("no message");
            match meta.request_id() {
                Some(id) => format!("{code}: {message} (request {id})").into(),
                None => format!("{code}: {message}").into(),
            }
        }
        other => other.into_source().unwrap_or_else(|error| error.to_string().into()),
    }
}
