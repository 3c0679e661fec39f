//! The error of a call to a platform.

use canyon_domain::failure::{Failure, FailureClass};
use std::time::Duration;

/// Why a call to a platform failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .failure.message)]
pub struct DispatchError {
    /// The failure with which the attempt ends, if the launcher ends it because of this error.
    pub failure: Failure,
    /// What the launcher does next.
    pub on_failure: OnFailure,
}

/// What follows a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The call had no effect: the attempt ends with the failure.
    EndAttempt,
    /// The call may have taken effect: observe the job before anything else.
    Observe,
    /// The call had no effect and may be repeated after this time. The attempt continues.
    RetryAfter(Duration),
    /// The platform takes so many starts a second, and this one was not sent: others come first. It may be sent after this
    /// time. The wait does not count as the time of the start.
    WaitForTurn(Duration),
}

impl DispatchError {
    /// The platform refused the call, which had no effect.
    pub fn refused(class: FailureClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), on_failure: OnFailure::EndAttempt }
    }

    /// Whether the call took effect is unknown.
    pub fn unknown(class: FailureClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), on_failure: OnFailure::Observe }
    }

    /// The start was not sent, because others come first; it may be sent after `pause`.
    pub fn not_yet(message: impl Into<String>, pause: Duration) -> Self {
        let failure = Failure::new(FailureClass::Throttled, message);
        Self { failure, on_failure: OnFailure::WaitForTurn(pause) }
    }

    /// The call had no effect and may be repeated after `pause`.
    pub fn later(class: FailureClass, message: impl Into<String>, pause: Duration) -> Self {
        Self { failure: Failure::new(class, message), on_failure: OnFailure::RetryAfter(pause) }
    }
}
