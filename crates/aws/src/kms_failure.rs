//! Classifies failures of KMS.

use aws_sdk_kms::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kms::operation::RequestId as _;
use std::error::Error;

/// The cause of an error, for the log.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A failure by its consequence.
#[derive(Debug)]
pub(crate) enum KmsFailure {
    /// The key cannot do this until an administrator changes it. Contains the message of KMS.
    Unusable(String),
    /// KMS is throttled or did not answer.
    Busy(BoxError),
    /// KMS rejected the request, for example because the function's role lacks a permission.
    Refused(BoxError),
}

impl KmsFailure {
    pub(crate) fn of<E>(error: SdkError<E>) -> Self
    where
        E: Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let SdkError::ServiceError(context) = error else {
            return Self::Busy(
                error.into_source().unwrap_or_else(|error| error.to_string().into()),
            );
        };
        let meta = context.err().meta();
        let code = meta.code().unwrap_or("no code");
        let message = meta.message().unwrap_or("no message");
        let text = match meta.request_id() {
            Some(id) => format!("{code}: {message} (request {id})"),
            None => format!("{code}: {message}"),
        };
        match code {
            // The errors of the operations that Canyon calls (AWS KMS API Reference).
            "DisabledException"
            | "KMSInvalidStateException"
            | "NotFoundException"
            | "InvalidKeyUsageException"
            | "UnsupportedOperationException" => Self::Unusable(text),
            "ThrottlingException"
            | "LimitExceededException"
            | "DependencyTimeoutException"
            | "KMSInternalException"
            | "KeyUnavailableException" => Self::Busy(text.into()),
            _ if context.raw().status().as_u16() >= 500 => Self::Busy(text.into()),
            _ => Self::Refused(text.into()),
        }
    }
}
