//! Assigns jobs to agents: makes offers, and reassigns jobs whose agent's session has ended.

use super::offers::Offers;
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, DesiredState};
use canyon_domain::runner::agents::AgentTarget;
use jiff::Timestamp;

/// Updates the agent selector of a job that no agent has taken to the runner's current one. Returns
/// whether the job changed.
pub(super) fn update_target(job: &mut AgentJob, target: Option<&AgentTarget>) -> bool {
    let is_waiting = job.holder.is_none() && job.desired == DesiredState::Run;
    let is_new = is_waiting && job.target.as_ref() != target;
    if is_new {
        job.target = target.cloned();
    }
    is_new
}

/// Offers a job that no agent has taken, and reassigns a job whose agent's session has ended.
/// `agents` are the agents that may launch the job; `outsider` is the job's holder if it is not one
/// of them. Returns whether the job changed.
pub(super) fn assign(
    job: &mut AgentJob,
    offers: &Offers,
    agents: &[Agent],
    outsider: Option<&Agent>,
    now: Timestamp,
) -> bool {
    let Some(taken) = &job.holder else {
        return offers.offer(job, agents, now);
    };
    let holder = agents.iter().find(|agent| agent.id == taken.agent);
    job.reassign(agents, holder.or(outsider), now)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use canyon_domain::deadline::Observation;
    use serde_json::json;
    use std::time::Duration;

    pub(in crate::agents) fn at(second: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(second)
    }

    pub(in crate::agents) fn agent(id: &str, last_seen: u64) -> Agent {
        serde_json::from_value(json!({
            "id": id, "adoption": "adopted", "created_at": at(0), "sessions": 1, "version": 1,
            "identity": { "by": "token", "principal": "00000000-0000-0000-0000-000000000001" },
            "session": {
                "number": 1, "instance": "i", "opened_at": at(0), "last_seen": at(last_seen),
                "serves": ["docker-agent"], "place": "p", "program": "1", "protocol": 1,
                "concurrency": 4, "running": 0,
            },
        }))
        .unwrap()
    }

    pub(in crate::agents) fn job() -> AgentJob {
        serde_json::from_value(json!({
            "deployment": "01890000-0000-7000-8000-000000000001", "attempt": 1, "fence": 1,
            "runner": "01890000-0000-7000-8000-000000000002",
            "order": {
                "org_id": "acme", "runner_id": "private", "kind": "docker-agent", "definition": {},
                "project": "shop", "env": "dev", "launched_at": at(0),
            },
            "target": { "ids": ["one"] },
            "version": 1,
        }))
        .unwrap()
    }

    /// Calls [`super::assign`] as a launcher that has made no offers yet.
    fn assign(
        job: &mut AgentJob,
        agents: &[Agent],
        outsider: Option<&Agent>,
        now: Timestamp,
    ) -> bool {
        super::assign(job, &Offers::default(), agents, outsider, now)
    }

    #[test]
    fn a_job_follows_its_runners_agent_selector_until_an_agent_takes_it() {
        let (one, two) = (agent("one", 0), agent("two", 0));
        let now_two: AgentTarget = serde_json::from_value(json!({ "ids": ["two"] })).unwrap();
        let mut job = job();
        assert!(!update_target(&mut job.clone(), job.target.as_ref()), "nothing was changed");
        assert!(job.is_for(&one) && !job.is_for(&two));
        assert!(
            update_target(&mut job, Some(&now_two)) && !update_target(&mut job, Some(&now_two))
        );
        assert!(job.is_for(&two) && !job.is_for(&one));
        assert!(assign(&mut job, std::slice::from_ref(&two), None, at(1)));
        job.take(&two.id, 1, "p", at(1)).unwrap();
        assert!(!update_target(&mut job, None) && job.target.as_ref() == Some(&now_two));
    }

    #[test]
    fn a_live_holder_keeps_a_job_to_stop_and_after_its_session_another_agent_of_its_place_gets_it()
    {
        let (one, two) = (agent("one", 0), agent("two", 0));
        let mut job = job();
        assign(&mut job, std::slice::from_ref(&one), None, at(0));
        job.take(&one.id, 1, "p", at(0)).unwrap();
        job.raise_desired_state(DesiredState::Stop);
        let both = [one.clone(), two.clone()];
        assert!(!assign(&mut job, &both, None, at(1)), "its holder receives the request");
        assert!(!assign(&mut job, &both[1..], Some(&one), at(1)), "also if it may launch no more");
        assert!(!assign(&mut job, &[], Some(&one), at(100)), "there is no other agent");
        let later = [agent("two", 100)];
        assert!(assign(&mut job, &later, Some(&one), at(100)));
        assert_eq!(job.holder.unwrap().agent, two.id);
    }

    #[test]
    fn a_live_holder_keeps_its_job_when_the_runner_selects_other_agents() {
        let (one, two) = (agent("one", 30), agent("two", 100));
        let mut job = job();
        assert!(assign(&mut job, std::slice::from_ref(&one), None, at(0)));
        job.take(&one.id, 1, "p", at(0)).unwrap();
        job.report(&one.id, 1, Observation::Alive, None, at(1)).unwrap();
        let others = [two];
        assert!(
            !assign(&mut job, &others, Some(&one), at(89)),
            "its last poll is within the lease"
        );
        assert!(assign(&mut job, &others, Some(&one), at(90)));
        let taken = job.holder.unwrap();
        assert!(taken.agent == others[0].id && taken.reassigned);
    }
}
