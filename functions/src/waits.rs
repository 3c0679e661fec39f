//! How many requests wait at once: each holds a connection and memory.

use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId, RunnerId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a request waits that found too many others waiting. Not answered at once, or its caller would ask in a
/// tight loop.
pub(crate) const BRIEF: Duration = Duration::from_secs(2);

/// Whose requests share a bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitOwner {
    /// A token, of a person, a program or agents, or a service account.
    Principal(PrincipalId),
    /// An agent with a key of its own.
    Agent(OrgUuid, AgentId),
    /// All that show the key of a runner: they choose their names themselves.
    Runner(OrgUuid, RunnerId),
}

/// The name within the organization.
impl std::fmt::Display for WaitOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Principal(id) => write!(f, "{id}"),
            Self::Agent(_, id) => write!(f, "agent/{id}"),
            Self::Runner(_, id) => write!(f, "runner/{id}"),
        }
    }
}

/// The requests that wait. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    most: usize,
    waiting: Arc<Mutex<HashMap<WaitOwner, usize>>>,
}

/// One that waits, until this is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    waits: Waits,
    whose: WaitOwner,
}

impl Waits {
    /// At most `most` of all callers, and half as many of one.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, waiting: Arc::default() }
    }

    /// Another one, if it may wait for its full time.
    pub(crate) fn begin(&self, whose: WaitOwner) -> Option<Wait> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = waiting.values().sum();
        let own = waiting.get(&whose).copied().unwrap_or_default();
        if all >= self.most || own >= self.most.div_ceil(2) {
            return None;
        }
        waiting.insert(whose.clone(), own + 1);
        Some(Wait { waits: self.clone(), whose })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.waits.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = waiting.get_mut(&self.whose) {
            *own -= 1;
            if *own == 0 {
                waiting.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn one_caller_may_have_half_of_the_waits_and_gives_them_back() {
        let (waits, whose) =
            (Waits::new(4), |number| WaitOwner::Principal(PrincipalId(Uuid::from_u128(number))));
        let mut held: Vec<_> = (0..2).map(|_| waits.begin(whose(1)).unwrap()).collect();
        assert!(waits.begin(whose(1)).is_none());
        held.extend([waits.begin(whose(2)).unwrap(), waits.begin(whose(3)).unwrap()]);
        assert!(waits.begin(whose(4)).is_none(), "all are taken");
        held.truncate(1);
        assert!(waits.begin(whose(1)).is_some());
        drop(held);
        assert!(waits.waiting.lock().unwrap().is_empty());
    }
}
