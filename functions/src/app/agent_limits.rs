//! How many agents one token, one service account or one runner's key may have. Each agent is a record that the API and the
//! launcher read when they look for an agent, so the holder of one secret must not make them without end.

use super::App;
use super::held_jobs::has_taken;
use crate::app::error::AppError;
use canyon_domain::agent::{Adoption, Agent, AgentIdentity};
use canyon_domain::ids::OrgUuid;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// The most agents that sign in by one token, as one service account, or by one runner's key.
pub(super) const MAX_AGENTS: usize = 1_000;
/// The most agents that one request deletes, so that it ends in time.
const MAX_DELETED: usize = 20;
/// How long an agent has sent no request before a new one may take its place. An agent that has ended its session waits no
/// time: a restart of many agents with new names must not be refused.
const SILENCE: SignedDuration = SignedDuration::from_mins(10);
/// When the caller may ask again: agents become silent over minutes.
const PAUSE: Duration = Duration::from_mins(1);

impl App {
    /// Makes room for another agent that signs in as `identity`. At the limit, the agents that have been silent for the
    /// longest time are deleted, each if it has been silent for [`SILENCE`] or has ended its session, holds no job, and has no
    /// setting of an administrator. That is one, or more if concurrent processes have registered too many.
    ///
    /// # Errors
    ///
    /// [`AppError::too_many`] if no agent can be deleted.
    pub(super) async fn make_room_for_agent(
        &self,
        org: OrgUuid,
        identity: &AgentIdentity,
    ) -> Result<(), AppError> {
        let (joins, now) = (self.agents.joins(), self.now());
        if joins.take(org, identity, now) {
            return Ok(());
        }
        let mut its = self.table.all_agents(org).await?;
        joins.renew(org, &its, now);
        its.retain(|agent| agent.identity == *identity);
        let surplus = (its.len() + 1).saturating_sub(MAX_AGENTS);
        if surplus == 0 {
            return Ok(());
        }
        let long_ago = now - SILENCE;
        its.retain(|agent| {
            may_make_way(agent) && (last_seen(agent) < long_ago || has_ended_its_session(agent))
        });
        its.sort_by_key(last_seen);
        let held = self.jobs_held(org).await?;
        its.retain(|agent| !held.iter().any(|job| has_taken(agent, job)));
        its.truncate(surplus.min(MAX_DELETED));
        if its.is_empty() {
            return Err(AppError::too_many(too_many(identity), PAUSE));
        }
        for agent in &its {
            self.forget_if_unchanged(org, agent).await?;
        }
        Ok(())
    }
}

/// Whether its record has nothing that a new record of the same agent would lack.
pub(super) fn may_make_way(agent: &Agent) -> bool {
    let is_as_it_joined =
        agent.named_at.or(agent.settings_fixed_at).is_none() && agent.adopted_by.is_none();
    agent.adoption == Adoption::Adopted && !agent.disabled && is_as_it_joined
}

fn has_ended_its_session(agent: &Agent) -> bool {
    agent.session.as_ref().is_some_and(|session| session.closed_at.is_some())
}

fn last_seen(agent: &Agent) -> Timestamp {
    agent.session.as_ref().map_or(agent.created_at, |session| session.last_seen)
}

fn too_many(identity: &AgentIdentity) -> String {
    let (what, way) = match identity {
        AgentIdentity::Token { .. } => ("this token or service account", "use another token"),
        AgentIdentity::Key { .. } => ("this key", "use tokens"),
    };
    format!(
        "{MAX_AGENTS} agents have {what}, and none of them can be deleted: each was connected in the last {} minutes, holds a \
         job, or has a setting of an administrator. Delete one (canyon forget agent NAME), or {way} for further agents",
        SILENCE.as_mins()
    )
}
