//! Why a platform did not do what it was asked to.

use canyon_domain::failure::{Failure, FailureClass};

/// Why a call to a platform failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .failure.message)]
pub struct DispatchError {
    /// With what the attempt ends, if the launcher ends it because of this.
    pub failure: Failure,
    /// Whether the call may have had its effect all the same. The launcher observes then, before
    /// it does anything else.
    pub outcome_unknown: bool,
}

impl DispatchError {
    /// The platform said no: nothing was done.
    pub fn refused(class: FailureClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), outcome_unknown: false }
    }

    /// Nobody can tell yet whether it was done.
    pub fn unknown(class: FailureClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), outcome_unknown: true }
    }
}
