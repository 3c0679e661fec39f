use super::*;
use crate::failure::{Failure, FailureClass};
use proptest::prelude::*;
use serde_json::json;

pub(super) fn at(second: u64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + Duration::from_secs(second)
}

pub(super) fn agent(id: &str, session: u64, place: &str, last_seen: u64) -> Agent {
    serde_json::from_value(json!({
        "id": id, "identity": { "by": "token", "principal": "00000000-0000-0000-0000-000000000001" },
        "adoption": "adopted", "runner": "private", "created_at": at(0), "sessions": session,
        "version": 1,
        "session": {
            "number": session, "instance": "i", "opened_at": at(0), "last_seen": at(last_seen),
            "serves": ["docker-agent"], "place": place, "program": "1", "protocol": 1,
            "concurrency": 4, "running": 0,
        },
    }))
    .unwrap()
}

pub(super) fn job() -> AgentJob {
    serde_json::from_value(json!({
        "deployment": "01890000-0000-7000-8000-000000000001", "attempt": 1, "fence": 1,
        "runner": "01890000-0000-7000-8000-000000000002",
        "order": {
            "org_id": "acme", "runner_id": "private", "kind": "docker-agent", "definition": {},
            "project": "shop", "env": "dev", "launched_at": at(0),
        },
        "version": 1,
    }))
    .unwrap()
}

pub(super) fn id(text: &str) -> AgentId {
    text.parse().unwrap()
}

#[test]
fn an_expired_offer_goes_to_another_agent_and_the_first_may_not_start_the_job() {
    let (one, two) = (agent("one", 1, "p", 0), agent("two", 1, "p", 40));
    let both = [one.clone(), two.clone()];
    let mut job = job();
    assert!(job.offer(&one, &both, at(0)));
    assert!(!job.offer(&two, &both, at(29)), "it is still offered to the first");
    assert!(job.offer(&two, &both, at(40)));
    assert_eq!(job.take(&id("one"), 1, "p", at(41)), Err(JobRefusal::NotOffered));
    assert_eq!(job.spec.launched_at, at(0), "no agent has taken it");
    assert_eq!(job.take(&id("two"), 1, "p", at(41)), Ok(()));
    let taken = job.clone();
    assert_eq!(job.take(&id("two"), 1, "p", at(99)), Ok(()), "the same request again");
    assert_eq!((job.spec.launched_at, &job), (at(41), &taken), "its age counts from the taking");
    assert_eq!(job.take(&id("one"), 1, "p", at(41)), Err(JobRefusal::TakenByAnother));
    assert!(!job.offer(&one, &both, at(100)));
}

#[test]
fn the_offers_of_a_session_that_ends_expire_at_once() {
    let (one, two) = (agent("one", 1, "p", 0), agent("two", 1, "p", 0));
    let mut job = job();
    job.offer(&one, &[one.clone(), two.clone()], at(0));
    let newer = agent("one", 2, "p", 1);
    assert!(job.offer(&two, &[newer, two.clone()], at(1)));
}

#[test]
fn the_offers_of_a_full_agent_expire_at_once_and_those_of_an_agent_with_room_stay() {
    let with = |change: &dyn Fn(&mut Agent)| {
        let mut one = agent("one", 1, "p", 0);
        change(&mut one);
        one
    };
    let running = |number| with(&|one| one.session.as_mut().unwrap().running = number);
    let two = agent("two", 1, "p", 0);
    let goes_on = |holder: Agent| {
        let mut job = job();
        job.offer(&agent("one", 1, "p", 0), &[], at(0));
        let is_offered = Observation::Queued("offered to agent `one`".to_owned());
        let holders = [holder, two.clone()];
        let goes_on = job.offer(&two, &holders, at(1));
        assert_eq!(goes_on, job.offer.as_ref().unwrap().agent == two.id);
        assert_eq!(!goes_on, job.observation(&holders, at(1)) == is_offered);
        // The stored version decides the race: the first writer has the job.
        assert_eq!(goes_on, job.take(&id("one"), 1, "p", at(2)).is_err());
        goes_on
    };
    assert!(!goes_on(running(0)) && !goes_on(running(3)), "it may still take it");
    assert!(goes_on(running(4)), "it is full");
    assert!(goes_on(with(&|one| one.disabled = true)));
    assert!(goes_on(with(&|one| one.session.as_mut().unwrap().draining = true)));
}

#[test]
fn a_job_that_was_taken_stays_on_its_platform() {
    let one = agent("one", 1, "here", 0);
    let mut job = job();
    job.offer(&one, std::slice::from_ref(&one), at(0));
    job.take(&id("one"), 1, "here", at(0)).unwrap();
    let far = agent("two", 1, "there", 100);
    let near = agent("three", 1, "here", 100);
    assert!(!job.adopt(&far, Some(&one), at(100)));
    assert!(!job.adopt(&near, Some(&one), at(30)), "its holder is live");
    assert!(job.adopt(&near, Some(&one), at(100)));
    assert_eq!(
        job.report(&id("one"), 1, Observation::Gone(None), None, at(101)),
        Err(JobRefusal::TakenByAnother),
    );
    let moved = agent("three", 2, "there", 100);
    assert!(!job.adopt(&moved, None, at(100)), "the same name on another platform");
    let restarted = agent("three", 2, "here", 100);
    assert!(job.adopt(&restarted, Some(&near), at(100)));
    let mut forgotten = agent("three", 1, "here", 200);
    assert!(!job.adopt(&forgotten, Some(&forgotten), at(200)), "an older session");
    forgotten.created_at = at(150);
    assert!(job.adopt(&forgotten, Some(&forgotten), at(200)), "another agent of the same name");
    let restarted = Agent { created_at: at(150), ..agent("three", 2, "here", 201) };
    assert!(job.adopt(&restarted, Some(&restarted), at(201)));
    assert!(!job.adopt(&forgotten, Some(&restarted), at(202)), "from then on its fence holds");
}

#[test]
fn only_a_report_from_the_platform_proves_that_a_job_is_gone() {
    let one = agent("one", 1, "p", 0);
    let agents = [one.clone()];
    let mut job = job();
    let queued =
        |job: &AgentJob, now| matches!(job.observation(&agents, at(now)), Observation::Queued(_));
    assert!(queued(&job, 0));
    job.offer(&one, &agents, at(0));
    assert!(queued(&job, 1) && queued(&job, 50));
    job.take(&id("one"), 1, "p", at(1)).unwrap();
    assert!(matches!(job.observation(&agents, at(2)), Observation::Waiting(_)));
    assert!(matches!(job.observation(&agents, at(100)), Observation::Unknown(_)), "silent");
    assert!(matches!(job.observation(&[], at(2)), Observation::Unknown(_)), "forgotten");
    let oom = || Observation::Gone(Some(Failure::new(FailureClass::Oom, "killed")));
    job.report(&id("one"), 1, oom(), None, at(3)).unwrap();
    job.report(&id("one"), 1, Observation::Alive, None, at(4)).unwrap();
    assert_eq!(job.observation(&agents, at(500)), oom(), "the report is final");
}

#[test]
fn a_job_that_no_agent_took_can_be_withdrawn_and_is_proved_gone() {
    let one = agent("one", 1, "p", 0);
    let mut job = job();
    job.offer(&one, std::slice::from_ref(&one), at(0));
    assert!(
        job.raise_desired_state(DesiredState::Stop) && !job.raise_desired_state(DesiredState::Stop)
    );
    assert_eq!(job.take(&id("one"), 1, "p", at(1)), Err(JobRefusal::Withdrawn));
    assert_eq!(job.observation(&[one], at(1)), Observation::Gone(None));
    assert!(!job.needs_agent());
}

proptest! {
    /// For events in any order: at most one holder, one platform, a desired state that only grows, and no
    /// start of a withdrawn job.
    #[test]
    fn no_order_of_events_gives_a_job_to_two_holders(events in proptest::collection::vec((0..7_u8, 0..3_u64, 1..3_u64, 0..4_u64), 1..60)) {
        let mut job = job();
        let mut now = 0;
        let mut place = None;
        let mut desired = DesiredState::Run;
        for (event, who, session, wait) in events {
            now += wait * 13;
            let name = ["one", "two", "three"][usize::try_from(who).unwrap()];
            let home = ["here", "here", "there"][usize::try_from(who).unwrap()];
            let it = agent(name, session, home, now);
            let agents = [it.clone()];
            let holder = job.holder.clone();
            match event {
                0 => { job.offer(&it, &agents, at(now)); }
                1 => {
                    let offered = job.offer.clone();
                    if job.take(&it.id, session, home, at(now)).is_ok() && holder.is_none() {
                        let offered = offered.unwrap();
                        prop_assert!(offered.agent == it.id && offered.session == session);
                        prop_assert_eq!(desired, DesiredState::Run);
                    }
                }
                2 => { job.adopt(&it, None, at(now)); }
                3 => { let _ = job.report(&it.id, session, Observation::Alive, None, at(now)); }
                4 => { job.raise_desired_state(DesiredState::Stop); }
                5 => { let _ = job.record_applied(&it.id, session, DesiredState::Kill); }
                _ => { job.reassign(&agents, None, at(now)); }
            }
            if let Some(taken) = &job.holder {
                let first = place.get_or_insert_with(|| taken.platform_id.clone());
                prop_assert_eq!(&*first, &taken.platform_id);
            } else {
                prop_assert!(holder.is_none());
            }
            prop_assert!(job.desired >= desired && job.applied <= job.desired);
            desired = job.desired;
        }
    }
}

fn principal(number: u128) -> PrincipalId {
    PrincipalId(uuid::Uuid::from_u128(number))
}

#[test]
fn a_job_for_one_agent_is_for_no_other_and_ends_when_that_agent_has_exited() {
    let named = |job: AgentJob, name: &str| AgentJob { only_agent: Some(id(name)), ..job };
    let one = agent("one", 1, "p", 0);
    let me = Some(principal(1));
    let own = Agent { reserved: true, adopted_by: me, ..agent("own", 1, "q", 0) };
    assert!(
        job().is_for(&one) && !job().is_for(&own),
        "a reserved agent takes only jobs that name it"
    );
    assert!(named(job(), "own").is_for(&own) && !named(job(), "own").is_for(&one));
    assert!(named(job(), "one").is_for(&one), "any agent can be named");
    let elsewhere = Agent { runner: "other".parse().ok(), ..own.clone() };
    let pending = Agent { adoption: crate::agent::Adoption::Pending, ..own.clone() };
    assert!(!named(job(), "own").is_for(&elsewhere) && !named(job(), "own").is_for(&pending));
    let vouched = Agent { adopted_by: None, ..own.clone() };
    assert!(!named(job(), "own").is_for(&vouched), "no user has adopted it");
    let of_me = AgentJob { only_for: me, ..named(job(), "own") };
    let of_others = Agent { adopted_by: Some(principal(2)), ..own.clone() };
    assert!(of_me.is_for(&own) && !of_me.is_for(&of_others), "another user has taken the name");
    let any = AgentJob { only_for: me, ..named(job(), "one") };
    assert!(any.is_for(&one), "an agent that is not reserved is for all users");
    let seen = |agents: &[Agent], second| named(job(), "own").observation(agents, at(second));
    assert!(matches!(seen(std::slice::from_ref(&own), 59), Observation::Queued(_)));
    assert!(matches!(seen(&[own], 60), Observation::Gone(Some(_))), "its key went with it");
    assert!(matches!(seen(&[], 1), Observation::Gone(Some(_))), "it was forgotten");
    assert!(matches!(job().observation(&[], at(1)), Observation::Queued(_)));
}
