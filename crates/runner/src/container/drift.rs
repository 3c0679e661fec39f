//! The check of a resource: whether it is still as its last deployment has left it.
//!
//! It runs the program of the job's `check`, which answers by its exit code: 0 if nothing has changed, `drift_exit_code` if
//! something has. Every other end is a failure. A resource that has changed counts as one to change.

use super::supervision::{Cause, Ended};
use canyon_api::attempt::TfResourceCounts;
use canyon_domain::container::JobCheck;

/// What a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drift {
    /// The resource is as it was.
    None,
    /// It differs.
    Found,
}

impl Drift {
    /// What the end of the program of `check` says, unless that is a failure.
    pub(super) fn of(ended: Ended, check: &JobCheck) -> Option<Self> {
        let code = ended.status.code().filter(|_| ended.cause == Cause::Itself)?;
        match u32::try_from(code).ok()? {
            0 => Some(Self::None),
            code if code == check.drift_exit_code() => Some(Self::Found),
            _ => None,
        }
    }

    /// For the log.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::None => "the resource is as its last deployment has left it",
            Self::Found => "the resource differs from what its last deployment has left",
        }
    }

    /// For the result.
    pub(super) fn counts(self) -> TfResourceCounts {
        TfResourceCounts {
            num_resources: None,
            num_resources_added: 0,
            num_resources_removed: 0,
            num_resources_changed: u32::from(self == Self::Found),
        }
    }
}
