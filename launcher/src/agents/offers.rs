//! The offers that their agents have not seen yet. They count as load, so that a burst of jobs goes
//! to all agents with room.

use canyon_domain::agent::{Agent, choose_agent};
use canyon_domain::agent_job::{AgentJob, OFFER_TIMEOUT};
use canyon_domain::ids::{AgentId, DeploymentId, OrgId};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The offers that this process has made, each until it expires.
#[derive(Debug, Default)]
pub(super) struct Offers(Mutex<HashMap<Attempt, Offered>>);

type Attempt = (DeploymentId, u32);

#[derive(Debug)]
struct Offered {
    org: OrgId,
    agent: AgentId,
    at: Timestamp,
}

impl Offers {
    /// Offers a job that no agent has taken to the agent that [`choose_agent`] picks. Returns whether the
    /// job changed.
    pub(super) fn offer(&self, job: &mut AgentJob, agents: &[Agent], now: Timestamp) -> bool {
        let attempt = (job.deployment, job.attempt);
        // Choose and count under one lock, because many jobs are reconciled at once.
        let mut offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !job.needs_offer(agents, now) {
            // An offer that could not be written no longer counts.
            let taken_by = job.holder.as_ref().map(|taken| &taken.agent);
            let stands = taken_by.or(job.offer.as_ref().map(|offer| &offer.agent));
            if offers.get(&attempt).is_some_and(|offered| Some(&offered.agent) != stands) {
                offers.remove(&attempt);
            }
            return false;
        }
        offers.retain(|other, offered| *other != attempt && now < offered.at + OFFER_TIMEOUT);
        let org = job.spec.org_id.clone();
        let loaded = loaded(agents, offers.values().filter(|offered| offered.org == org));
        let has_room = |agent: &Agent| agent.has_room_for(job, now);
        let Some(chosen) = choose_agent(&loaded, has_room) else { return false };
        let changed = job.offer(chosen, agents, now);
        if changed {
            offers.insert(attempt, Offered { org, agent: chosen.id.clone(), at: now });
        }
        changed
    }
}

/// The agents with the load that they will have once they have taken their offers.
fn loaded<'a>(agents: &[Agent], offers: impl Iterator<Item = &'a Offered>) -> Vec<Agent> {
    let mut times: HashMap<&AgentId, Vec<Timestamp>> = HashMap::new();
    for offered in offers {
        times.entry(&offered.agent).or_default().push(offered.at);
    }
    let with_offers = |agent: &Agent| {
        let mut agent = agent.clone();
        if let (Some(session), Some(times)) = (&mut agent.session, times.get(&agent.id)) {
            // After an agent has polled, its session counts the jobs that it took.
            let unpolled = times.iter().filter(|at| **at >= session.last_seen).count();
            let unpolled = u32::try_from(unpolled).unwrap_or(u32::MAX);
            session.running = session.running.saturating_add(unpolled);
            session.offered_at = session.offered_at.max(times.iter().max().copied());
        }
        agent
    };
    agents.iter().map(with_offers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::assignment::tests::{agent, at, job};
    use uuid::Uuid;

    /// Which agent is offered another job at this second.
    fn next(offers: &Offers, agents: &[Agent], number: u128, second: u64) -> Option<String> {
        let mut job = job();
        job.deployment = DeploymentId(Uuid::from_u128(number));
        let changed = offers.offer(&mut job, agents, at(second));
        assert_eq!(changed, job.offer.is_some());
        job.offer.map(|offer| offer.agent.to_string())
    }

    #[test]
    fn an_offer_counts_as_load_until_its_agent_polls_and_as_a_turn_after_that() {
        let (offers, both) = (Offers::default(), [agent("one", 0), agent("two", 0)]);
        let chosen: Vec<_> = (1..=8).filter_map(|number| next(&offers, &both, number, 1)).collect();
        assert_eq!(chosen.iter().filter(|id| *id == "one").count(), 4, "{chosen:?}");
        assert_eq!(next(&offers, &both, 9, 1), None, "each has been offered all that it may run");
        let mut other = job();
        other.spec.org_id = "globex".parse().unwrap();
        assert!(offers.offer(&mut other, &both, at(1)), "those of another organization were not");

        // The second agent has polled and has taken none of its four offers.
        let polled = [agent("one", 0), agent("two", 2)];
        assert_eq!(next(&offers, &polled, 9, 3).as_deref(), Some("two"));
        let (offers, both) = (Offers::default(), [agent("one", 0), agent("two", 0)]);
        assert_eq!(next(&offers, &both, 1, 1).as_deref(), Some("one"));
        let polled = [agent("one", 2), agent("two", 2)];
        assert_eq!(next(&offers, &polled, 2, 3).as_deref(), Some("two"), "it was the first's turn");
    }

    #[test]
    fn an_expired_offer_and_one_whose_job_is_offered_again_count_no_more() {
        let (offers, one) = (Offers::default(), [agent("one", 0)]);
        for _ in 0..10 {
            assert!(next(&offers, &one, 1, 1).is_some(), "it is the same job");
        }
        for number in 2..=4 {
            assert!(next(&offers, &one, number, 1).is_some());
        }
        assert_eq!(next(&offers, &one, 5, 30), None);
        assert!(next(&offers, &one, 5, 31).is_some());
    }
}
