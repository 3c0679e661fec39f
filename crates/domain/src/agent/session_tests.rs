use super::*;
use proptest::prelude::*;
use serde_json::json;

fn at(second: u64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + Duration::from_secs(second)
}

/// An agent in the format of earlier versions, without remembered processes.
fn stored(session: u64, instance: &str) -> Agent {
    serde_json::from_value(json!({
        "id": "a", "identity": { "by": "token", "principal": "00000000-0000-0000-0000-000000000001" },
        "adoption": "adopted", "created_at": at(0), "sessions": session, "version": 1,
        "session": {
            "number": session, "instance": instance, "opened_at": at(0), "last_seen": at(0),
            "serves": ["docker-agent"], "place": "p", "program": "1", "protocol": 1,
            "concurrency": 4, "running": 3, "draining": true,
        },
    }))
    .unwrap()
}

fn process(instance: impl Into<String>) -> Process {
    Process {
        instance: instance.into(),
        serves: vec![RunnerType::DockerAgent],
        platform_id: "p".to_owned(),
        program: "1".to_owned(),
        protocol: 1,
        concurrency: 4,
    }
}

fn number(agent: &Agent) -> u64 {
    agent.session.as_ref().unwrap().number
}

/// A process opens a session while another one is current; returns the new number.
fn opens(agent: &mut Agent, instance: &str, second: u64) -> u64 {
    match agent.open(process(instance), None, at(second)) {
        SessionStart::Candidate(number) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_repeated_opening_of_the_current_process_changes_only_the_time_of_the_last_request() {
    let mut agent = stored(3, "living");
    let mut expected = agent.clone();
    expected.session.as_mut().unwrap().last_seen = at(7);
    assert_eq!(agent.open(process("living"), None, at(7)), SessionStart::Current);
    assert_eq!(agent, expected);
}

#[test]
fn a_new_session_supersedes_the_current_one_only_with_the_first_request_of_its_process() {
    let mut agent = stored(3, "living");
    let before = agent.session.clone();
    assert_eq!(opens(&mut agent, "dead", 1), 4);
    assert_eq!((number(&agent), &agent.session), (3, &before));
    assert_eq!(opens(&mut agent, "next", 2), 5);
    assert_eq!(opens(&mut agent, "next", 3), 5, "the same request again");
    assert_eq!((number(&agent), agent.candidates.len()), (3, 2));

    assert!(agent.confirm(5, at(4)));
    let session = agent.session.clone().unwrap();
    assert_eq!((session.number, session.instance.as_str(), agent.sessions), (5, "next", 5));
    assert!(session.adopts_jobs == Some(at(2)) && agent.candidates.is_empty());
    assert!(!agent.confirm(4, at(5)), "older than the current session");
    for late in ["living", "dead"] {
        assert_eq!(agent.open(process(late), None, at(6)), SessionStart::Superseded, "{late}");
    }
    assert_eq!(agent.session, Some(session));
}

#[test]
fn a_candidate_of_a_dead_process_does_not_affect_the_sessions_of_a_live_one() {
    let mut agent = stored(1, "former");
    assert_eq!(opens(&mut agent, "living", 1), 2);
    assert_eq!(opens(&mut agent, "dead", 2), 3);
    assert!(agent.confirm(2, at(3)));
    assert_eq!((number(&agent), agent.candidates.len()), (2, 1));
    // A request after that of the dead process gets a number of its own.
    assert_eq!(opens(&mut agent, "next", 4), 4);
    assert!(agent.withdraw(4) && !agent.withdraw(4));
    assert_eq!(opens(&mut agent, "last", 5), 5);
    assert_eq!(number(&agent), 2);
}

#[test]
fn a_candidate_expires_after_ten_minutes_and_its_number_is_not_allocated_again() {
    let mut agent = stored(1, "living");
    assert_eq!(opens(&mut agent, "dead", 0), 2);
    assert!(!agent.confirm(2, at(600)));
    assert_eq!(opens(&mut agent, "next", 600), 3);
    assert_eq!(agent.candidates.len(), 1);
    for drawn in 4..20 {
        assert_eq!(opens(&mut agent, &drawn.to_string(), 601), drawn);
    }
    assert_eq!((agent.candidates.len(), number(&agent)), (MAX_CANDIDATES, 1));
}

#[test]
fn an_opening_of_a_process_that_was_superseded_or_has_closed_its_session_changes_nothing() {
    let mut agent = stored(3, "first");
    let second = opens(&mut agent, "second", 1);
    assert!(agent.confirm(second, at(1)));
    let before = agent.clone();
    assert_eq!(agent.open(process("first"), None, at(2)), SessionStart::Superseded);
    assert_eq!((number(&agent), &agent), (4, &before));
    agent.session.as_mut().unwrap().closed_at = Some(at(3));
    let before = agent.clone();
    for late in ["first", "second"] {
        assert_eq!(agent.open(process(late), None, at(4)), SessionStart::Superseded, "{late}");
        assert_eq!(agent, before);
    }
    assert_eq!(agent.open(process("third"), None, at(5)), SessionStart::New);
    assert_eq!((number(&agent), agent.session.unwrap().running), (5, 0));
}

#[test]
fn the_last_eight_processes_are_remembered_and_no_more() {
    let mut agent = stored(1, "0");
    for drawn in 1..=9 {
        let number = opens(&mut agent, &drawn.to_string(), drawn);
        assert!(agent.confirm(number, at(drawn)));
    }
    let before = &agent.session.as_ref().unwrap().earlier_instances;
    assert_eq!(before.iter().map(String::as_str).collect::<String>(), "12345678");
}

#[test]
fn the_settings_of_a_new_process_apply_only_from_its_first_request() {
    let mut agent = stored(1, "living");
    let labels = [("zone".to_owned(), "east".to_owned())].into();
    let described =
        Description { runner: None, by_token: None, labels, run_untagged_jobs: Some(true) };
    let opened = agent.open(process("next"), Some(described), at(1));
    assert_eq!(opened, SessionStart::Candidate(2));
    assert!(agent.labels.is_empty() && agent.run_untagged_jobs.is_none());
    let read: Agent = serde_json::from_value(serde_json::to_value(&agent).unwrap()).unwrap();
    assert_eq!(read, agent);
    assert!(agent.confirm(2, at(2)));
    assert_eq!((agent.labels["zone"].as_str(), agent.run_untagged_jobs), ("east", Some(true)));
    let settled = Agent { settings_fixed_at: Some(at(0)), labels: [].into(), ..read };
    assert!(
        settled.as_confirmed(2, at(2)).unwrap().labels.is_empty(),
        "an administrator has set them"
    );
}

proptest! {
    /// For opening requests, requests and closes in any order: only a process that sends a request in a later
    /// session supersedes a session, and no number stands for two processes.
    #[test]
    fn no_order_of_openings_and_requests_replaces_a_process_by_a_silent_one(
        events in proptest::collection::vec((0..14_u8, 0..4_u8), 1..80),
    ) {
        let mut agent = stored(1, "-");
        let mut numbers = std::collections::BTreeMap::from([(1, "-".to_owned())]);
        for (second, (drawn, event)) in (1..).zip(events) {
            let (instance, before) = (drawn.to_string(), agent.clone());
            match event {
                0 | 1 => {
                    let opened = agent.open(process(instance.clone()), None, at(second));
                    let was_closed = before.session.as_ref().unwrap().closed_at.is_some();
                    let given = match opened {
                        SessionStart::New => { prop_assert!(was_closed); number(&agent) }
                        SessionStart::Current => { prop_assert!(!was_closed); number(&agent) }
                        SessionStart::Candidate(given) => {
                            prop_assert!(!was_closed || !before.candidates.is_empty());
                            prop_assert_eq!(number(&agent), number(&before));
                            given
                        }
                        SessionStart::Superseded => { prop_assert_eq!(&agent, &before); continue }
                    };
                    prop_assert_eq!(numbers.entry(given).or_insert(instance.clone()), &instance);
                }
                2 => {
                    let requested = u64::from(drawn);
                    let counts = agent.confirm(requested, at(second));
                    let known = before.candidates.iter().any(|known| known.number == requested);
                    prop_assert!(counts == known && (!counts || requested > number(&before)));
                    prop_assert!(counts || agent == before);
                }
                _ => agent.session.as_mut().unwrap().closed_at = Some(at(second)),
            }
            prop_assert!(number(&agent) >= number(&before));
            prop_assert_eq!(agent.sessions, number(&agent));
        }
    }
}
