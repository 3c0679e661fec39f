//! Who has a job that was taken: the session that took it while that lives, then another of its place.

use super::{AgentJob, Refused, Seen, Taken};
use crate::agent::{Adoption, Agent, LEASE};
use crate::deadline::Observation;
use crate::ids::AgentId;
use jiff::Timestamp;

impl Taken {
    /// Whether the agent, in whichever session, took the job. One of the same name that was made after that, once the
    /// former was forgotten, is another: it may serve another runner.
    pub fn is_by(&self, agent: &Agent) -> bool {
        agent.id == self.agent && agent.created_at <= self.at
    }

    /// Whether the agent is there in the very session that took the job. Whom the runner names by now says nothing
    /// of that.
    pub fn is_held_by(&self, agent: &Agent, now: Timestamp) -> bool {
        // One that was refused cannot speak of its jobs.
        if !self.is_by(agent) || agent.adoption != Adoption::Adopted {
            return false;
        }
        if agent.sessions < self.session {
            // It was read before it began that session.
            return now < self.at + LEASE;
        }
        agent.live(now).is_some_and(|session| session.number == self.session)
    }
}

impl AgentJob {
    /// Gives a job whose session is over to one of its place that lives, which must be told of it. `agents` may launch
    /// such jobs by now, and `holder` is the agent that had it. Returns whether it changed.
    pub fn hand_over(&mut self, agents: &[Agent], holder: Option<&Agent>, now: Timestamp) -> bool {
        let Some(taken) = &self.taken else { return false };
        if holder.is_some_and(|holder| taken.is_held_by(holder, now)) {
            return false;
        }
        let is_here = |agent: &&Agent| {
            agent.adoption == Adoption::Adopted
                && agent.live(now).is_some_and(|session| session.place == taken.place)
        };
        // Its own agent knows it best. If the runner names others since, it sees to the job if none of them does.
        let next = agents.iter().filter(is_here).min_by_key(|agent| agent.id != taken.agent);
        let itself = || holder.filter(is_here).filter(|holder| taken.is_by(holder));
        let Some(next) = next.or_else(itself) else { return false };
        let changed = self.take_over(next, holder, now);
        if let Some(taken) = self.taken.as_mut().filter(|_| changed) {
            // Whoever polls by the runner's key is told what it is to do, and not what it holds.
            taken.handed_over = self.polled.is_none();
        }
        changed
    }

    /// A newer session, of the same agent or of another one in the same place, goes on with a job
    /// whose former holder is gone. Returns whether that changed anything.
    pub fn take_over(&mut self, by: &Agent, holder: Option<&Agent>, now: Timestamp) -> bool {
        let (Some(session), Some(taken)) = (by.session.as_ref(), self.taken.as_mut()) else {
            return false;
        };
        let same_agent = taken.agent == by.id;
        // One that was forgotten counts its sessions anew, from the first that goes on with the job.
        let newer = session.number > taken.session || by.created_at > taken.at;
        let abandoned = holder.is_none_or(|holder| !taken.is_held_by(holder, now));
        // The place alone says where the job may run: an agent that moved does not find it.
        let may = taken.place == session.place && if same_agent { newer } else { abandoned };
        if may {
            taken.handed_over = !same_agent;
            taken.agent = by.id.clone();
            taken.session = session.number;
            taken.at = now;
        }
        may
    }

    /// Its agent has spoken of it, so it need not be told that it holds the job.
    pub fn heard(&mut self) {
        if let Some(taken) = &mut self.taken {
            taken.handed_over = false;
        }
    }

    /// Whether the agent's newest session holds the job.
    ///
    /// # Errors
    ///
    /// [`Refused::TakenByAnother`] if not.
    pub fn check_holder(&self, agent: &Agent) -> Result<(), Refused> {
        let is_its = self.taken.as_ref().is_some_and(|taken| taken.is_by(agent));
        if !is_its {
            return Err(Refused::TakenByAnother);
        }
        self.check_session(&agent.id, agent.sessions)
    }

    /// Whether this session holds the job.
    ///
    /// # Errors
    ///
    /// [`Refused::TakenByAnother`] if not.
    pub(super) fn check_session(&self, agent: &AgentId, session: u64) -> Result<(), Refused> {
        let holds = |taken: &Taken| taken.agent == *agent && taken.session == session;
        if self.taken.as_ref().is_some_and(holds) { Ok(()) } else { Err(Refused::TakenByAnother) }
    }

    /// What the launcher may believe of a job that was taken: what its session last saw, while that lives.
    pub(super) fn observation_of_taken(
        &self,
        taken: &Taken,
        agents: &[Agent],
        now: Timestamp,
    ) -> Observation {
        let holder = agents.iter().find(|agent| agent.id == taken.agent);
        match &self.seen {
            Some(Seen { observation: gone @ Observation::Gone(_), .. }) => gone.clone(),
            _ if !holder.is_some_and(|agent| taken.is_held_by(agent, now)) => {
                Observation::Unknown(why_unwatched(taken, holder, now))
            }
            Some(seen) => seen.observation.clone(),
            None => Observation::Waiting(format!("agent `{}` is starting it", taken.agent)),
        }
    }
}

/// `holder` is the agent that took the job, if it is known still.
fn why_unwatched(taken: &Taken, holder: Option<&Agent>, now: Timestamp) -> String {
    let id = &taken.agent;
    match holder.and_then(|agent| agent.session.as_ref()) {
        Some(session) if session.is_live(now) => {
            format!("agent `{id}`, which watched the job, has begun anew and does not see to it")
        }
        Some(session) => format!(
            "agent `{id}`, which watches the job, was last seen {}",
            session.last_seen.strftime("%Y-%m-%dT%H:%M:%SZ")
        ),
        None => format!("agent `{id}`, which watched the job, is not there any more"),
    }
}

#[cfg(test)]
#[path = "holding_tests.rs"]
mod tests;
