//! "There may be work for you": said to agents that wait in a request.
//!
//! A hint carries nothing and may be lost. Where another process writes, nobody hints; whoever waits
//! looks by himself after a second.

use canyon_domain::ids::{AgentId, OrgUuid};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

type Waiting = HashMap<(OrgUuid, AgentId), Arc<Notify>>;

/// Hints for agents that wait. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AgentHints(Arc<Mutex<Waiting>>);

/// An agent that waits, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    hints: AgentHints,
    whose: (OrgUuid, AgentId),
    hinted: Arc<Notify>,
}

impl AgentHints {
    /// Says that there may be work for an agent.
    pub fn hint(&self, org: OrgUuid, agent: &AgentId) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = waiting.get(&(org, agent.clone())) {
            // Kept for the next wait, if nobody waits at this moment.
            waiter.notify_one();
        }
    }

    /// From now on hints for this agent are heard.
    pub(crate) fn listen(&self, org: OrgUuid, agent: &AgentId) -> Waiter {
        let hinted = Arc::new(Notify::new());
        let whose = (org, agent.clone());
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An older request of the same agent goes on with its clock alone.
        waiting.insert(whose.clone(), hinted.clone());
        Waiter { hints: self.clone(), whose, hinted }
    }
}

impl Waiter {
    /// Waits for a hint, for `longest` at most.
    pub(crate) async fn wait(&self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.hinted.notified()).await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.hints.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.get(&self.whose).is_some_and(|other| Arc::ptr_eq(other, &self.hinted)) {
            waiting.remove(&self.whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;
    use uuid::Uuid;

    #[tokio::test(start_paused = true)]
    async fn a_hint_ends_the_wait_of_its_agent_alone_and_is_not_lost_between_two_looks() {
        let (hints, org) = (AgentHints::default(), OrgUuid(Uuid::nil()));
        let (berlin, boston) = ("berlin".parse().unwrap(), "boston".parse().unwrap());
        let waiter = hints.listen(org, &berlin);
        let since = Instant::now();
        hints.hint(org, &berlin);
        waiter.wait(Duration::from_secs(9)).await;
        assert_eq!(since.elapsed(), Duration::ZERO, "kept until somebody waited");
        hints.hint(org, &boston);
        waiter.wait(Duration::from_secs(9)).await;
        assert_eq!(since.elapsed(), Duration::from_secs(9), "another's");
        drop(waiter);
        assert!(hints.0.lock().unwrap().is_empty());
    }
}
