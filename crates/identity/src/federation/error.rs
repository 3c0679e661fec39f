//! Errors of token exchanges.

use crate::assertion::AssertionError;
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;

/// Why there is no token of a cloud. The message names the cloud, the step, and what to change.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FederationError {
    /// Canyon's own token cannot be signed.
    #[error("Canyon's own token cannot be signed: {}", Causes(.0))]
    Assertion(#[from] AssertionError),
    /// The cloud rejected the request. It will again until an administrator changes a setting.
    #[error("{0}")]
    Refused(String),
    /// The cloud throttles Canyon.
    #[error("{0}")]
    Throttled(String),
    /// The cloud did not answer, or not in a known form.
    #[error("{0}")]
    Unavailable(String),
}

impl FederationError {
    /// The failure class of a job that fails for this reason.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Refused(_) => FailureClass::Config,
            Self::Throttled(_) => FailureClass::Throttled,
            Self::Assertion(_) | Self::Unavailable(_) => FailureClass::Lost,
        }
    }
}
