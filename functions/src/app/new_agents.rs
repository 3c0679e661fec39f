//! Agents that ask to be adopted. Anyone who can reach Canyon may ask, with any key, so this is limited: for each
//! network address, for each organization, and in what the audit list says of it. An organization may refuse all of
//! it ([`AgentRequests::Refused`]). Whatever becomes of the request, the answer is the same.
//!
//! An agent that Canyon knows, or that a token or a runner's key vouches for, is never limited by this.

use super::App;
use super::agent_proofs::AgentCaller;
use crate::app::error::AppError;
use canyon_api::agent::OpenSession;
use canyon_domain::agent::{Adoption, Agent, AgentIdentity};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId};
use canyon_domain::inventory::AgentRequests;
use canyon_store::StoreError;
use canyon_store::allowance::{Allowance, Allowed};
use jiff::{SignedDuration, Timestamp};
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
    /// Notes that an agent asks which nothing vouches for, unless the organization refuses that, its name is another
    /// agent's, or too many ask. A stranger is told nothing of all this. Returns what the organization does with such requests.
    pub(super) async fn note_request(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
        identity: AgentIdentity,
        found: Option<Agent>,
    ) -> Result<AgentRequests, AppError> {
        let organization = self.table.organization(caller.org).await?;
        let requests = organization.map_or(AgentRequests::Refused, |of| of.agent_requests);
        let allows = requests == AgentRequests::Allowed;
        match found {
            // One that asked just before the organization began to refuse.
            Some(agent) if !allows && agent.adoption == Adoption::Pending => {
                self.forget_pending_agent(caller.org, &agent).await?;
            }
            None if allows && self.makes_room_for_pending(caller).await? => {
                let agent = as_it_asks(caller, body, identity, self.now());
                let (org, id) = (caller.org, &agent.id);
                let record = self.record_of_stranger(org, "agent.ask", id, "agent").await?;
                // If another request was faster, the next one of this agent finds the name taken.
                self.table.create_agent(org, &agent, record.as_ref()).await?;
            }
            Some(_) | None => {}
        }
        Ok(requests)
    }

    /// Forgets all agents that wait to be adopted.
    pub(super) async fn forget_pending_agents(&self, org: OrgUuid) -> Result<(), AppError> {
        let agents = self.table.all_agents(org).await?;
        for agent in agents.iter().filter(|agent| agent.adoption == Adoption::Pending) {
            self.forget_pending_agent(org, agent).await?;
        }
        Ok(())
    }

    async fn forget_pending_agent(&self, org: OrgUuid, agent: &Agent) -> Result<(), AppError> {
        let record = self.record_of_stranger(org, "agent.forget", &agent.id, "canyon").await?;
        self.forget_as_read(org, agent, record.as_ref()).await
    }

    /// Whether another agent may wait to be adopted. If so, there is room for it then.
    async fn makes_room_for_pending(&self, caller: &AgentCaller) -> Result<bool, AppError> {
        let (org, source) = (caller.org, caller.asks_from());
        let limits = [
            (format!("agents#{org}#{source}"), OF_A_SOURCE),
            (format!("agents#{org}"), OF_AN_ORGANIZATION),
        ];
        for (name, allowance) in limits {
            let allowed = self.table.allow(&name, allowance, self.now()).await?;
            if let Allowed::After(_) = allowed {
                return Ok(false);
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
            self.forget_pending_agent(org, &agent).await?;
        }
        Ok(true)
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

/// The agent that a request describes, pending.
pub(super) fn as_it_asks(
    caller: &AgentCaller,
    body: &OpenSession,
    identity: AgentIdentity,
    now: Timestamp,
) -> Agent {
    Agent {
        id: caller.agent.clone(),
        identity,
        adoption: Adoption::Pending,
        labels: body.labels.clone(),
        runner: body.runner.clone(),
        run_untagged_jobs: body.run_untagged_jobs,
        by_runner_key: false,
        by_token: None,
        named_at: None,
        settled_at: None,
        disabled: false,
        reserved: body.reserved,
        adopted_by: None,
        created_at: now,
        asked_from: Some(caller.asks_from()),
        sessions: 0,
        numbers_drawn: 0,
        candidates: Vec::new(),
        session: None,
        version: 1,
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
