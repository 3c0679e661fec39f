//! The holder of a job that was taken: the session that took it while that is live, then another session on
//! the same platform.

use super::{AgentJob, JobHolder, JobRefusal, ReportedState};
use crate::agent::{Adoption, Agent, LEASE};
use crate::deadline::Observation;
use crate::ids::AgentId;
use jiff::Timestamp;

impl JobHolder {
    /// Whether this agent took the job, in any session. An agent of the same name that was created after
    /// that, once the former one was forgotten, is another agent: it may serve another runner.
    pub fn was_taken_by(&self, agent: &Agent) -> bool {
        agent.id == self.agent && agent.created_at <= self.at
    }

    /// Whether the session that took the job is live. A later change of the runner's agent selector does not
    /// affect a job that an agent already holds.
    pub fn is_held_by(&self, agent: &Agent, now: Timestamp) -> bool {
        // A rejected agent cannot report on its jobs.
        if !self.was_taken_by(agent) || agent.adoption != Adoption::Adopted {
            return false;
        }
        if agent.sessions < self.session {
            // The agent was read before it began that session.
            return now < self.at + LEASE;
        }
        agent.live_session(now).is_some_and(|session| session.number == self.session)
    }
}

impl AgentJob {
    /// Reassigns a job whose session has ended to a live session on the same platform, which must be
    /// notified. `agents` may launch such jobs now, and `holder` is the agent that held the job. Returns
    /// whether the job changed.
    pub fn reassign(
        &mut self,
        agents: &[Agent],
        holder_agent: Option<&Agent>,
        now: Timestamp,
    ) -> bool {
        let Some(taken) = &self.holder else { return false };
        if holder_agent.is_some_and(|holder| taken.is_held_by(holder, now)) {
            return false;
        }
        let is_here = |agent: &&Agent| {
            agent.adoption == Adoption::Adopted
                && agent
                    .live_session(now)
                    .is_some_and(|session| session.platform_id == taken.platform_id)
        };
        // The former holder comes first. If the runner has selected other agents since, the former holder
        // keeps the job if none of them is on its platform.
        let next = agents.iter().filter(is_here).min_by_key(|agent| agent.id != taken.agent);
        let itself = || holder_agent.filter(is_here).filter(|holder| taken.was_taken_by(holder));
        let Some(next) = next.or_else(itself) else { return false };
        let changed = self.adopt(next, holder_agent, now);
        if let Some(taken) = self.holder.as_mut().filter(|_| changed) {
            // A poller with the runner's key receives messages, and no list of the jobs that it holds.
            taken.reassigned = self.polled.is_none();
        }
        changed
    }

    /// A newer session adopts a job whose holder is gone: a session of the same agent, or of another one on
    /// the same platform. Returns whether that changed anything.
    pub fn adopt(&mut self, by: &Agent, holder_agent: Option<&Agent>, now: Timestamp) -> bool {
        let (Some(session), Some(taken)) = (by.session.as_ref(), self.holder.as_mut()) else {
            return false;
        };
        let same_agent = taken.agent == by.id;
        // An agent that was forgotten and created again counts its sessions from 1, so the creation time
        // decides for the first one that adopts the job.
        let newer = session.number > taken.session || by.created_at > taken.at;
        let abandoned = holder_agent.is_none_or(|holder| !taken.is_held_by(holder, now));
        // The job may run only on its platform: an agent that moved elsewhere does not find it.
        let may =
            taken.platform_id == session.platform_id && if same_agent { newer } else { abandoned };
        if may {
            taken.reassigned = !same_agent;
            taken.agent = by.id.clone();
            taken.session = session.number;
            taken.at = now;
        }
        may
    }

    /// The holder has reported on the job, so Canyon need not notify it that it holds the job.
    pub fn confirm_holder(&mut self) {
        if let Some(taken) = &mut self.holder {
            taken.reassigned = false;
        }
    }

    /// Whether the agent's newest session holds the job.
    ///
    /// # Errors
    ///
    /// [`JobRefusal::TakenByAnother`] if not.
    pub fn check_holder(&self, agent: &Agent) -> Result<(), JobRefusal> {
        let is_its = self.holder.as_ref().is_some_and(|taken| taken.was_taken_by(agent));
        if !is_its {
            return Err(JobRefusal::TakenByAnother);
        }
        self.check_session(&agent.id, agent.sessions)
    }

    /// Whether this session holds the job.
    ///
    /// # Errors
    ///
    /// [`JobRefusal::TakenByAnother`] if not.
    pub(super) fn check_session(&self, agent: &AgentId, session: u64) -> Result<(), JobRefusal> {
        let holds = |taken: &JobHolder| taken.agent == *agent && taken.session == session;
        if self.holder.as_ref().is_some_and(holds) {
            Ok(())
        } else {
            Err(JobRefusal::TakenByAnother)
        }
    }

    /// The state of a taken job for the launcher: what its session last reported, while that is live.
    pub(super) fn observation_of_taken(
        &self,
        taken: &JobHolder,
        agents: &[Agent],
        now: Timestamp,
    ) -> Observation {
        let holder = agents.iter().find(|agent| agent.id == taken.agent);
        match &self.reported {
            Some(ReportedState { observation: gone @ Observation::Gone(_), .. }) => gone.clone(),
            _ if !holder.is_some_and(|agent| taken.is_held_by(agent, now)) => {
                Observation::Unknown(reason_unwatched(taken, holder, now))
            }
            Some(seen) => seen.observation.clone(),
            None => Observation::Waiting(format!("agent `{}` is starting it", taken.agent)),
        }
    }
}

/// Why no agent reports on a job. `holder` is the agent that took the job, if it still exists.
fn reason_unwatched(taken: &JobHolder, holder: Option<&Agent>, now: Timestamp) -> String {
    let id = &taken.agent;
    match holder.and_then(|agent| agent.session.as_ref()) {
        Some(session) if session.is_live(now) => {
            format!("agent `{id}`, which held the job, has restarted and has not adopted it")
        }
        Some(session) => format!(
            "agent `{id}`, which holds the job, was last seen {}",
            session.last_seen.strftime("%Y-%m-%dT%H:%M:%SZ")
        ),
        None => format!("agent `{id}`, which held the job, no longer exists"),
    }
}

#[cfg(test)]
#[path = "holding_tests.rs"]
mod tests;
