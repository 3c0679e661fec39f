//! How many agents of an identity may join before all agents are counted again. A count reads every agent of the organization,
//! and thousands of agents may join within a minute.

use super::agent_limits::MAX_AGENTS;
use canyon_domain::agent::{Agent, AgentIdentity};
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ids::OrgUuid;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How long the allowances of an organization hold.
const LIFE: SignedDuration = SignedDuration::from_secs(10);
/// The most organizations whose allowances are kept.
const MAX_ORGANIZATIONS: usize = 1_000;
/// A process may use this part of what is left to the limit. Other processes may do the same at the same time: as many as this
/// stay below the limit together.
const PART: usize = 32;

type OfOrganization = Arc<Mutex<HashMap<AgentIdentity, usize>>>;

/// The allowances of one process. Threads share them.
#[derive(Debug)]
pub(super) struct JoinAllowances(ExpiringCache<OrgUuid, OfOrganization>);

impl Default for JoinAllowances {
    fn default() -> Self {
        Self(ExpiringCache::new(LIFE, MAX_ORGANIZATIONS))
    }
}

impl JoinAllowances {
    /// Whether another agent of `identity` may join. If not, the caller counts all agents.
    pub(super) fn take(&self, org: OrgUuid, identity: &AgentIdentity, now: Timestamp) -> bool {
        let Some(allowances) = self.0.get(&org, now) else { return false };
        // A panic of another thread leaves complete entries behind.
        let mut allowances = allowances.lock().unwrap_or_else(PoisonError::into_inner);
        let left = allowances.entry(identity.clone()).or_insert(allowance(0));
        let taken = left.checked_sub(1);
        *left = taken.unwrap_or_default();
        taken.is_some()
    }

    /// Allows anew, after all agents of the organization were read.
    pub(super) fn renew(&self, org: OrgUuid, all: &[Agent], now: Timestamp) {
        let mut counts = HashMap::<&AgentIdentity, usize>::new();
        for agent in all {
            *counts.entry(&agent.identity).or_default() += 1;
        }
        let allowances =
            counts.into_iter().map(|(identity, count)| (identity.clone(), allowance(count)));
        let allowances = Arc::new(Mutex::new(allowances.collect()));
        self.0.insert(org, allowances, now);
    }
}

/// How many may join if there are `count` of them.
fn allowance(count: usize) -> usize {
    MAX_AGENTS.saturating_sub(count) / PART
}
