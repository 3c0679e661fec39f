//! Agents that ask to be adopted. Any caller that can reach Canyon may ask, with any key. So requests are limited for
//! each network address, for each organization, and in the number of audit records. An organization may refuse all of
//! them ([`AgentRequests::Refused`]). The answer is the same in every case.
//!
//! These limits never apply to an agent that Canyon knows, or that a token or a runner's key authenticates.

use super::App;
use super::agent_proofs::AgentCaller;
use crate::app::error::AppError;
use canyon_api::agent::OpenSession;
use canyon_domain::agent::{Adoption, Agent, AgentIdentity};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId};
use canyon_domain::inventory::AgentRequests;
use canyon_store::StoreError;
use canyon_store::api_rate_limit::{Decision, RateLimit};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// The most pending agents of an organization. Beyond that, one of them is forgotten.
const MAX_PENDING: usize = 100;
/// How long a closed reserved agent is kept after its last request, so that users can inspect it.
const STALE: SignedDuration = SignedDuration::from_hours(1);
/// New agents from one network address.
const OF_A_SOURCE: RateLimit = RateLimit { burst: 10, interval: Duration::from_secs(3) };
/// New agents of an organization from all addresses. One address alone cannot use it up.
const OF_AN_ORGANIZATION: RateLimit = RateLimit { burst: 30, interval: Duration::from_millis(500) };
/// Audit records of an organization about pending agents. The next record counts those that were left out.
const RECORDS: RateLimit = RateLimit { burst: 20, interval: Duration::from_mins(1) };

impl App {
    /// Notes the request of an agent that no token or runner key authenticates. Skips it if the organization refuses
    /// such requests, another agent has the name, or too many agents ask. The caller learns nothing of this.
    /// Returns the organization's setting for such requests.
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
            // The agent asked just before the organization began to refuse.
            Some(agent) if !allows && agent.adoption == Adoption::Pending => {
                self.forget_pending_agent(caller.org, &agent).await?;
            }
            None if allows && self.makes_room_for_pending(caller).await? => {
                let agent = requesting_agent(caller, body, identity, self.now());
                let (org, id) = (caller.org, &agent.id);
                let record = self.record_of_pending_agent(org, "agent.ask", id, "agent").await?;
                // If another request was faster, this agent's next request finds the name taken.
                self.table.create_agent(org, &agent, record.as_ref()).await?;
            }
            Some(_) | None => {}
        }
        Ok(requests)
    }

    /// Forgets all pending agents.
    pub(super) async fn forget_pending_agents(&self, org: OrgUuid) -> Result<(), AppError> {
        let agents = self.table.all_agents(org).await?;
        for agent in agents.iter().filter(|agent| agent.adoption == Adoption::Pending) {
            self.forget_pending_agent(org, agent).await?;
        }
        Ok(())
    }

    async fn forget_pending_agent(&self, org: OrgUuid, agent: &Agent) -> Result<(), AppError> {
        let record = self.record_of_pending_agent(org, "agent.forget", &agent.id, "canyon").await?;
        self.forget_as_read(org, agent, record.as_ref()).await
    }

    /// Whether another agent may become pending. If needed, forgets one to make room.
    async fn makes_room_for_pending(&self, caller: &AgentCaller) -> Result<bool, AppError> {
        let (org, source) = (caller.org, caller.asks_from());
        let limits = [
            (format!("agents#{org}#{source}"), OF_A_SOURCE),
            (format!("agents#{org}"), OF_AN_ORGANIZATION),
        ];
        for (name, allowance) in limits {
            let allowed = self.table.allow(&name, allowance, self.now()).await?;
            if let Decision::RetryAfter(_) = allowed {
                return Ok(false);
            }
        }
        let mut pending = self.table.all_agents(org).await?;
        // Agents that were killed could not send a request to be forgotten.
        let long_ago = self.now() - STALE;
        for agent in pending.iter().filter(|agent| agent.has_gone_for_good(long_ago)) {
            self.forget_if_unchanged(org, agent).await?;
        }
        pending.retain(|agent| agent.adoption == Adoption::Pending);
        while pending.len() >= MAX_PENDING {
            let Some(place) = next_to_forget(&pending) else { break };
            let agent = pending.swap_remove(place);
            self.forget_pending_agent(org, &agent).await?;
        }
        Ok(true)
    }

    /// The audit record for a change of a pending agent without proof; `None` after too many of them. The next record
    /// counts those that were left out.
    pub(super) async fn record_of_pending_agent(
        &self,
        org: OrgUuid,
        action: &str,
        id: &AgentId,
        right: &str,
    ) -> Result<Option<AuditRecord>, StoreError> {
        let name = format!("agent-records#{org}");
        let allowed = self.table.allow_and_count_refusals(&name, RECORDS, self.now()).await?;
        let Decision::Allowed { refusals } = allowed else { return Ok(None) };
        let mut record = self.own_record(action, id, PrincipalId(Uuid::nil()), right);
        if refusals > 0 {
            let more = format!("and {refusals} more changes of agents that only asked");
            record.details.push(more);
        }
        Ok(Some(record))
    }
}

/// The pending agent that a request describes.
pub(super) fn requesting_agent(
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
        settings_fixed_at: None,
        disabled: false,
        reserved: body.reserved,
        shared: body.shared,
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

/// The pending agent to forget: the oldest of the network address with the most of them. So an address that asks for
/// many agents only displaces its own.
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
