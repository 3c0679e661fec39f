//! Who is to have a job: offers, and the handing over of what was taken.

use super::offers::Offers;
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, Wish};
use canyon_domain::runner::agents::AgentTarget;
use jiff::Timestamp;

/// What nobody has taken is for those whom its runner names by now. Returns whether that changed anything.
pub(super) fn aim(job: &mut AgentJob, target: Option<&AgentTarget>) -> bool {
    let is_waiting = job.taken.is_none() && job.wish == Wish::Run;
    let is_new = is_waiting && job.target.as_ref() != target;
    if is_new {
        job.target = target.cloned();
    }
    is_new
}

/// Offers a job that nobody has, and hands over one whose session is over. `outsider` is the agent that has it, if that
/// is not among `agents`, which may launch such jobs. Returns whether it changed.
pub(super) fn arrange(
    job: &mut AgentJob,
    offers: &Offers,
    agents: &[Agent],
    outsider: Option<&Agent>,
    now: Timestamp,
) -> bool {
    let Some(taken) = &job.taken else {
        return offers.offer(job, agents, now);
    };
    let holder = agents.iter().find(|agent| agent.id == taken.agent);
    job.hand_over(agents, holder.or(outsider), now)
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

    /// [`super::arrange`] by a launcher that has offered nothing yet.
    fn arrange(
        job: &mut AgentJob,
        agents: &[Agent],
        outsider: Option<&Agent>,
        now: Timestamp,
    ) -> bool {
        super::arrange(job, &Offers::default(), agents, outsider, now)
    }

    #[test]
    fn a_job_that_waits_follows_its_runner_and_one_that_was_taken_does_not() {
        let (one, two) = (agent("one", 0), agent("two", 0));
        let now_two: AgentTarget = serde_json::from_value(json!({ "ids": ["two"] })).unwrap();
        let mut job = job();
        assert!(!aim(&mut job.clone(), job.target.as_ref()), "nothing was changed");
        assert!(job.is_for(&one) && !job.is_for(&two));
        assert!(aim(&mut job, Some(&now_two)) && !aim(&mut job, Some(&now_two)));
        assert!(job.is_for(&two) && !job.is_for(&one));
        assert!(arrange(&mut job, std::slice::from_ref(&two), None, at(1)));
        job.take(&two.id, 1, "p", at(1)).unwrap();
        assert!(!aim(&mut job, None) && job.target.as_ref() == Some(&now_two));
    }

    #[test]
    fn what_is_wanted_of_a_job_is_told_to_its_holder_while_that_lives_and_then_to_another_of_its_place()
     {
        let (one, two) = (agent("one", 0), agent("two", 0));
        let mut job = job();
        arrange(&mut job, std::slice::from_ref(&one), None, at(0));
        job.take(&one.id, 1, "p", at(0)).unwrap();
        job.want(Wish::Stop);
        let both = [one.clone(), two.clone()];
        assert!(!arrange(&mut job, &both, None, at(1)), "its holder is told");
        assert!(!arrange(&mut job, &both[1..], Some(&one), at(1)), "also if it may launch no more");
        assert!(!arrange(&mut job, &[], Some(&one), at(100)), "nobody else is there");
        let later = [agent("two", 100)];
        assert!(arrange(&mut job, &later, Some(&one), at(100)));
        assert_eq!(job.taken.unwrap().agent, two.id);
    }

    #[test]
    fn a_live_holder_keeps_its_job_whomever_the_runner_names_since() {
        let (one, two) = (agent("one", 30), agent("two", 100));
        let mut job = job();
        assert!(arrange(&mut job, std::slice::from_ref(&one), None, at(0)));
        job.take(&one.id, 1, "p", at(0)).unwrap();
        job.report(&one.id, 1, Observation::Alive, None, at(1)).unwrap();
        let others = [two];
        assert!(!arrange(&mut job, &others, Some(&one), at(89)), "it was heard a minute ago");
        assert!(arrange(&mut job, &others, Some(&one), at(90)));
        let taken = job.taken.unwrap();
        assert!(taken.agent == others[0].id && taken.handed_over);
    }
}
