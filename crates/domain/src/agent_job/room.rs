//! Whether the agents of a runner would take one more job at once.

use super::{AgentJob, DesiredState};
use crate::agent::Agent;
use crate::deadline::Observation;
use crate::runner::RunnerType;
use jiff::Timestamp;

/// Whether `agents`, which all may serve a runner of this type, have a place for one more of its jobs. `jobs` are those
/// that the runner has now.
///
/// An agent says with each poll how many jobs it runs, also of other runners. That number is older than the jobs, so the
/// larger of both counts.
pub fn have_room(agents: &[Agent], jobs: &[AgentJob], kind: RunnerType, now: Timestamp) -> bool {
    let sessions = agents
        .iter()
        .filter(|agent| agent.is_at_work(kind, now))
        .filter_map(|agent| agent.live_session(now));
    let (places, running) = sessions.fold((0, 0), |(places, running), session| {
        (places + u64::from(session.concurrency), running + u64::from(session.running))
    });
    let count = |counts: fn(&AgentJob) -> bool| {
        jobs.iter().filter(|job| counts(job)).count().try_into().unwrap_or(u64::MAX)
    };
    running.max(count(AgentJob::is_running)).saturating_add(count(AgentJob::is_order)) < places
}

impl AgentJob {
    /// Whether it waits for an agent that takes it.
    fn is_order(&self) -> bool {
        self.holder.is_none() && self.desired == DesiredState::Run
    }

    /// Whether an agent has taken it, and no end is known.
    fn is_running(&self) -> bool {
        let is_gone = self
            .reported
            .as_ref()
            .is_some_and(|reported| matches!(reported.observation, Observation::Gone(_)));
        self.holder.is_some() && self.desired < DesiredState::Forget && !is_gone
    }
}
