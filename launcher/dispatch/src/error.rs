//! Why a platform did not do what it was asked to.

use canyon_domain::failure::{Failure, FailureClass};
use std::time::Duration;

/// Why a call to a platform failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .failure.message)]
pub struct DispatchError {
    /// With what the attempt ends, if the launcher ends it because of this.
    pub failure: Failure,
    /// What the launcher does about it.
    pub then: Then,
}

/// What follows a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing was done: the attempt ends with the failure.
    End,
    /// The call may have had its effect all the same: observe, before anything else is done.
    Observe,
    /// Nothing was done, and the same call may be made after this time. The attempt goes on.
    Again(Duration),
}

impl DispatchError {
    /// The platform said no: nothing was done.
    pub fn refused(class: FailureClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), then: Then::End }
    }

    /// Nobody can tell yet whether it was done.
    pub fn unknown(class: FailureClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), then: Then::Observe }
    }

    /// It was not done, and may be asked for again after `pause`.
    pub fn later(class: FailureClass, message: impl Into<String>, pause: Duration) -> Self {
        Self { failure: Failure::new(class, message), then: Then::Again(pause) }
    }
}
