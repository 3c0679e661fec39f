//! Kills that a test requests.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Invocation;

/// When the process of an invocation is killed with `kill -9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// This long after the invocation was delivered, unless it has answered by then.
    After(Duration),
    /// When its answer arrives, after all its work: the answer is lost.
    BeforeResponse,
}

type Hook = Arc<dyn Fn(&Invocation) -> Option<Kill> + Send + Sync>;

/// The kills that a test requests.
#[derive(Default)]
pub(super) struct Faults {
    hook: Mutex<Option<Hook>>,
}

impl Faults {
    pub(super) fn set(&self, hook: Option<Hook>) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    pub(super) fn for_invocation(&self, invocation: &Invocation) -> Option<Kill> {
        // The hook runs unlocked, so it may change the hooks itself.
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        hook.and_then(|hook| hook(invocation))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Faults")
    }
}
