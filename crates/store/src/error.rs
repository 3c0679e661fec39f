//! Errors of the table and of the object store.
//!
//! A failed condition is not an error but one of the answers (see [`crate::conditional`]).

use crate::item_size::MAX_ITEM;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::RequestId as _;
use std::path::PathBuf;

/// The cause of an error, for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An operation of the store that failed. `operation` reads like "create runner", `thing` like
/// `my-runner`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The table or object store is throttled.
    #[error("could not {operation} `{thing}`: the store is busy; try again in a moment")]
    Throttled {
        /// The operation.
        operation: &'static str,
        /// The thing that it works on.
        thing: String,
        /// The last throttle.
        #[source]
        source: BoxError,
    },
    /// The store did not answer. A write may have happened or not.
    #[error("could not {operation} `{thing}`: the store did not answer; try again")]
    Unavailable {
        /// The operation.
        operation: &'static str,
        /// The thing that it works on.
        thing: String,
        /// The failure of the connection, or the store's error.
        #[source]
        source: BoxError,
    },
    /// The stored item is not in a form that this version can parse.
    #[error(
        "could not {operation} `{key}`: the stored item is not in a form that this version reads; \
         was it written by a newer version, or by hand?"
    )]
    Corrupt {
        /// The operation.
        operation: &'static str,
        /// The item's key.
        key: String,
        /// The error of the parser.
        #[source]
        source: BoxError,
    },
    /// The store rejected the request. A retry does not help.
    #[error("could not {operation} `{thing}`: the store refused the request")]
    Backend {
        /// The operation.
        operation: &'static str,
        /// The thing that it works on.
        thing: String,
        /// The rejection.
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
        /// The cause.
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
    /// Whether a retry of the same request may succeed.
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

    /// An item at `key` that this version cannot parse.
    pub fn corrupt(
        operation: &'static str,
        key: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        Self::Corrupt { operation, key: key.into(), source: source.into() }
    }

    /// Classifies a failure that the SDK reports. Check for a failed condition with
    /// [`crate::conditional`] first; here it would be a [`StoreError::Backend`].
    pub fn sdk<E>(operation: &'static str, thing: impl Into<String>, error: SdkError<E>) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let thing = thing.into();
        let kind = ErrorKind::of(&error);
        let source = cause(error);
        match kind {
            ErrorKind::Throttled => Self::Throttled { operation, thing, source },
            ErrorKind::Unavailable => Self::Unavailable { operation, thing, source },
            ErrorKind::Refused => Self::Backend { operation, thing, source },
        }
    }
}

/// How a failure is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Throttled,
    Unavailable,
    Refused,
}

impl ErrorKind {
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
            // A request that could not be built will fail the same way again.
            _ => Self::Refused,
        }
    }
}

/// The codes by which DynamoDB throttles, as errors and as reasons of a cancelled transaction
/// (Developer Guide, "Error handling with DynamoDB"; API reference of `TransactWriteItems`).
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

/// Message, code and request id. Without the raw response, because it contains items.
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
