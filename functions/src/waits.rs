//! Limits the number of waiting requests: each holds a connection and memory.

use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId, RunnerId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a request waits that found too many others waiting. An immediate answer would let its caller retry in a
/// tight loop.
pub(crate) const SHORT_WAIT: Duration = Duration::from_secs(2);

/// The owner of waiting requests; those of one owner share a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitOwner {
    /// A service account, or a token of a user, a program or agents.
    Principal(PrincipalId),
    /// An agent with its own key.
    Agent(OrgUuid, AgentId),
    /// All agents that sign in with the key of a runner: they choose their own names.
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

/// The waiting requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    most: usize,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    of_owners: HashMap<WaitOwner, usize>,
    of_agents: usize,
}

/// A waiting request. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct Wait {
    waits: Waits,
    whose: WaitOwner,
    is_of_agent: bool,
}

impl Waits {
    /// At most `most` waits of all callers, half as many of one owner, and half as many of all agents.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, waiting: Arc::default() }
    }

    /// Begins a wait, if the request may wait for its full time.
    pub(crate) fn begin(&self, whose: WaitOwner) -> Option<Wait> {
        self.begin_as(whose, false)
    }

    /// The same for an agent, or for a program that polls for a runner.
    pub(crate) fn begin_of_agent(&self, whose: WaitOwner) -> Option<Wait> {
        self.begin_as(whose, true)
    }

    fn begin_as(&self, whose: WaitOwner, is_of_agent: bool) -> Option<Wait> {
        let mut waiting = self.lock();
        let half = self.most.div_ceil(2);
        let all: usize = waiting.of_owners.values().sum();
        let own = waiting.of_owners.get(&whose).copied().unwrap_or_default();
        if all >= self.most || own >= half || (is_of_agent && waiting.of_agents >= half) {
            return None;
        }
        waiting.of_owners.insert(whose.clone(), own + 1);
        waiting.of_agents += usize::from(is_of_agent);
        Some(Wait { waits: self.clone(), whose, is_of_agent })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.waits.lock();
        waiting.of_agents -= usize::from(self.is_of_agent);
        if let Some(own) = waiting.of_owners.get_mut(&self.whose) {
            *own -= 1;
            if *own == 0 {
                waiting.of_owners.remove(&self.whose);
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
        assert!(waits.lock().of_owners.is_empty());
    }

    #[test]
    fn all_agents_together_have_half_of_the_waits_and_give_them_back() {
        let waits = Waits::new(4);
        let whose = |number| WaitOwner::Principal(PrincipalId(Uuid::from_u128(number)));
        let held = [1, 2].map(|number| waits.begin_of_agent(whose(number)).unwrap());
        assert!(waits.begin_of_agent(whose(3)).is_none());
        let users = [4, 5].map(|number| waits.begin(whose(number)).unwrap());
        drop((held, users));
        assert!(waits.begin_of_agent(whose(3)).is_some());
        assert!(waits.lock().of_owners.is_empty() && waits.lock().of_agents == 0);
    }
}
