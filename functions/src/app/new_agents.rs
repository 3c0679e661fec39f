//! Agents that ask to be adopted. Anyone who can reach Canyon may ask, with any key, so this is limited: for each
//! network address, for each organization, and in what the audit list says of it.
//!
//! An agent that Canyon knows, or that a token or a runner's key vouches for, is never limited by this.

use super::App;
use super::agent_proofs::AgentCaller;
use crate::http::error::ApiError;
use canyon_domain::agent::{Adoption, Agent};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId};
use canyon_store::StoreError;
use canyon_store::allowance::{Allowance, Allowed};
use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// The most agents of an organization that wait to be adopted; beyond that one is forgotten.
const MAX_PENDING: usize = 100;
/// How long after its last word a reserved agent that has gone is kept for people to look at.
const STALE: SignedDuration = SignedDuration::from_hours(1);
/// New agents from one network address.
const OF_A_SOURCE: Allowance = Allowance { burst: 10, interval: Duration::from_secs(3) };
/// New agents of an organization, from wherever. One address alone does not use it up.
const OF_AN_ORGANIZATION: Allowance = Allowance { burst: 30, interval: Duration::from_millis(500) };
/// Audit records of an organization about agents that only ask. What is passed over is counted in the next one.
const RECORDS: Allowance = Allowance { burst: 20, interval: Duration::from_mins(1) };

impl App {
    /// Checks that another agent may wait to be adopted, and makes room for it.
    ///
    /// # Errors
    ///
    /// 429 if too many have asked, with the seconds after which this one may ask again: a few at most.
    pub(super) async fn make_room_for_pending(&self, caller: &AgentCaller) -> Result<(), ApiError> {
        let (org, source) = (caller.org, caller.asks_from());
        let limits = [
            (format!("agents#{org}#{source}"), OF_A_SOURCE, "from your network"),
            (format!("agents#{org}"), OF_AN_ORGANIZATION, "of this organization"),
        ];
        for (name, allowance, whose) in limits {
            let allowed = self.table.allow(&name, allowance, self.now()).await?;
            if let Allowed::After(pause) = allowed {
                let message = format!(
                    "too many new agents {whose} ask to be adopted; ask again in a few seconds, or give the agent a \
                     token: canyon create token --role agent"
                );
                return Err(ApiError::too_many(message, pause));
            }
        }
        let mut pending = self.table.all_agents(org).await?;
        // Those that were killed could not ask to be forgotten.
        let long_ago = self.now() - STALE;
        for agent in pending.iter().filter(|agent| agent.has_gone_for_good(long_ago)) {
            self.make_way(org, agent).await?;
        }
        pending.retain(|agent| agent.adoption == Adoption::Pending);
        while pending.len() >= MAX_PENDING {
            let Some(place) = next_to_forget(&pending) else { break };
            let agent = pending.swap_remove(place);
            let record = self.record_of_stranger(org, "agent.forget", &agent.id, "canyon").await?;
            self.forget_as_read(org, &agent, record.as_ref()).await?;
        }
        Ok(())
    }

    /// The record of what becomes of an agent that nothing vouches for; `None` if there were too many of late. The next
    /// one says how many were passed over.
    pub(super) async fn record_of_stranger(
        &self,
        org: OrgUuid,
        action: &str,
        id: &AgentId,
        right: &str,
    ) -> Result<Option<AuditRecord>, StoreError> {
        let name = format!("agent-records#{org}");
        let allowed = self.table.allow_or_count(&name, RECORDS, self.now()).await?;
        let Allowed::Yes { passed_over } = allowed else { return Ok(None) };
        let mut record = self.own_record(action, id, PrincipalId(Uuid::nil()), right);
        if passed_over > 0 {
            let more = format!("and {passed_over} more changes of agents that only asked");
            record.details.push(more);
        }
        Ok(Some(record))
    }
}

/// Which of those that wait makes way: the oldest from the address that most of them came from. So an address that
/// asks for many only has its own forgotten.
fn next_to_forget(pending: &[Agent]) -> Option<usize> {
    let mut counts = BTreeMap::<Option<&str>, usize>::new();
    for agent in pending {
        *counts.entry(agent.asked_from.as_deref()).or_default() += 1;
    }
    let most = counts.values().max()?;
    let is_of_most = |agent: &Agent| counts.get(&agent.asked_from.as_deref()) == Some(most);
    let candidates = pending.iter().enumerate().filter(|(_, agent)| is_of_most(agent));
    candidates.min_by_key(|(_, agent)| agent.created_at).map(|(place, _)| place)
}
