use super::*;
use crate::agent_job::tests::{agent, at, id, job};

/// A job that the first session of `one` has taken at second 0 and reported alive.
fn taken() -> AgentJob {
    let (one, mut job) = (agent("one", 1, "p", 0), job());
    assert!(job.offer(&one, &[], at(0)));
    job.take(&id("one"), 1, "p", at(0)).unwrap();
    job.report(&id("one"), 1, Observation::Alive, None, at(0)).unwrap();
    job
}

#[test]
fn the_session_that_took_a_job_holds_it_while_it_is_live_and_no_other_does() {
    let job = taken();
    let holds = |agent: Agent, second| job.holder.as_ref().unwrap().is_held_by(&agent, at(second));
    assert!(holds(agent("one", 1, "p", 0), 59) && !holds(agent("one", 1, "p", 0), 60));
    assert!(!holds(agent("one", 2, "p", 1), 1), "it restarted");
    assert!(!holds(agent("two", 1, "p", 1), 1));
    let rejected = Agent { adoption: Adoption::Rejected, ..agent("one", 1, "p", 1) };
    assert!(!holds(rejected, 1), "its reports are refused");
    let forgotten = Agent { created_at: at(1), ..agent("one", 1, "p", 1) };
    assert!(!holds(forgotten, 1), "another agent of the same name");
}

#[test]
fn an_agent_that_was_read_before_its_session_took_a_job_still_holds_it() {
    let (before, after, mut job) = (agent("one", 1, "p", 0), agent("one", 2, "p", 100), taken());
    assert!(job.adopt(&after, Some(&before), at(100)));
    assert!(job.holder.as_ref().unwrap().is_held_by(&before, at(101)));
    assert!(!job.reassign(&[agent("two", 1, "p", 101)], Some(&before), at(101)));
    assert!(!job.holder.as_ref().unwrap().is_held_by(&before, at(160)), "it was read long ago");
}

#[test]
fn a_job_of_an_ended_session_goes_to_an_agent_that_may_launch_it_now_or_else_to_its_restarted_agent()
 {
    let (again, two, far) =
        (agent("one", 2, "p", 10), agent("two", 1, "p", 10), agent("far", 1, "q", 10));
    let mut kept = taken();
    let others = [far.clone(), two.clone()];
    assert!(!kept.reassign(&others, Some(&agent("one", 1, "p", 0)), at(10)), "its session is live");
    let new_holder = |agents: &[Agent], holder: &Agent| {
        let mut job = taken();
        let changed = job.reassign(agents, Some(holder), at(10));
        let taken = job.holder.unwrap();
        assert_eq!(taken.reassigned, changed, "the new holder must be notified");
        changed.then(|| (taken.agent.to_string(), taken.session))
    };
    let of = |name: &str, session| Some((name.to_owned(), session));
    assert_eq!(new_holder(&others, &again), of("two", 1));
    assert_eq!(
        new_holder(&[two.clone(), again.clone()], &again),
        of("one", 2),
        "it may still launch the job"
    );
    assert_eq!(
        new_holder(std::slice::from_ref(&far), &again),
        of("one", 2),
        "no other agent is on the platform"
    );
    let moved = agent("one", 2, "q", 10);
    assert_eq!(
        new_holder(std::slice::from_ref(&far), &moved),
        None,
        "it moved to another platform"
    );
    assert_eq!(new_holder(&others, &moved), of("two", 1));
    let rejected = Agent { adoption: Adoption::Rejected, ..again };
    assert_eq!(new_holder(&[far], &rejected), None);
}

#[test]
fn the_state_of_a_job_whose_session_has_ended_is_unknown_until_another_session_adopts_it() {
    let (again, mut job) = (agent("one", 2, "p", 10), taken());
    let agents = [again];
    let Observation::Unknown(reason) = job.observation(&agents, at(10)) else {
        panic!("it is not unknown")
    };
    assert!(reason.contains("`one`, which held the job, has restarted"), "{reason}");
    assert!(job.reassign(&agents, agents.first(), at(10)));
    assert_eq!(job.observation(&agents, at(10)), Observation::Alive);
}
