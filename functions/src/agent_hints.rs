//! Wakes agents that wait in a request when there may be work for them.
//!
//! A hint has no content and may be lost. Where another process writes, no hint is sent; each waiting request then
//! reads again after a second.

use canyon_domain::ids::{AgentId, OrgUuid};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

type Waiting = HashMap<(OrgUuid, AgentId), Arc<Notify>>;

/// Hints for waiting agents. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AgentHints(Arc<Mutex<Waiting>>);

/// A waiting agent. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct Waiter {
    hints: AgentHints,
    whose: (OrgUuid, AgentId),
    hinted: Arc<Notify>,
}

impl AgentHints {
    /// Wakes an agent, because there may be work for it.
    pub fn hint(&self, org: OrgUuid, agent: &AgentId) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = waiting.get(&(org, agent.clone())) {
            // If no request waits at this moment, the permit is kept for the next wait.
            waiter.notify_one();
        }
    }

    /// Subscribes to the hints for this agent.
    pub(crate) fn listen(&self, org: OrgUuid, agent: &AgentId) -> Waiter {
        let hinted = Arc::new(Notify::new());
        let whose = (org, agent.clone());
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // This replaces the subscription of an older request of the same agent, which continues with its timer alone.
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
    async fn a_hint_ends_the_wait_of_its_agent_alone_and_is_not_lost_between_two_waits() {
        let (hints, org) = (AgentHints::default(), OrgUuid(Uuid::nil()));
        let (berlin, boston) = ("berlin".parse().unwrap(), "boston".parse().unwrap());
        let waiter = hints.listen(org, &berlin);
        let since = Instant::now();
        hints.hint(org, &berlin);
        waiter.wait(Duration::from_secs(9)).await;
        assert_eq!(since.elapsed(), Duration::ZERO, "kept until the next wait");
        hints.hint(org, &boston);
        waiter.wait(Duration::from_secs(9)).await;
        assert_eq!(since.elapsed(), Duration::from_secs(9), "another's");
        drop(waiter);
        assert!(hints.0.lock().unwrap().is_empty());
    }
}
