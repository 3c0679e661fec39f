use super::*;
use proptest::prelude::*;
use serde_json::json;

fn at(second: u64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + Duration::from_secs(second)
}

/// As earlier versions stored it: without the openings before.
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
        place: "p".to_owned(),
        program: "1".to_owned(),
        protocol: 1,
        concurrency: 4,
    }
}

fn number(agent: &Agent) -> u64 {
    agent.session.as_ref().unwrap().number
}

/// The process opens a session while another one goes on; its number.
fn opens(agent: &mut Agent, instance: &str, second: u64) -> u64 {
    match agent.open(process(instance), None, at(second)) {
        Opening::Candidate(number) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_opening_of_the_living_process_said_again_changes_nothing_but_when_it_was_heard() {
    let mut agent = stored(3, "living");
    let mut heard = agent.clone();
    heard.session.as_mut().unwrap().last_seen = at(7);
    assert_eq!(agent.open(process("living"), None, at(7)), Opening::Again);
    assert_eq!(agent, heard);
}

#[test]
fn an_opening_supersedes_a_session_that_goes_on_only_with_the_first_request_of_its_process() {
    let mut agent = stored(3, "living");
    let before = agent.session.clone();
    assert_eq!(opens(&mut agent, "dead", 1), 4);
    assert_eq!((number(&agent), &agent.session), (3, &before));
    assert_eq!(opens(&mut agent, "next", 2), 5);
    assert_eq!(opens(&mut agent, "next", 3), 5, "the same opening, said again");
    assert_eq!((number(&agent), agent.candidates.len()), (3, 2));

    assert!(agent.confirm(5, at(4)));
    let session = agent.session.clone().unwrap();
    assert_eq!((session.number, session.instance.as_str(), agent.sessions), (5, "next", 5));
    assert!(session.adopts_jobs == Some(at(2)) && agent.candidates.is_empty());
    assert!(!agent.confirm(4, at(5)), "older than the one that speaks");
    for late in ["living", "dead"] {
        assert_eq!(agent.open(process(late), None, at(6)), Opening::Superseded, "{late}");
    }
    assert_eq!(agent.session, Some(session));
}

#[test]
fn a_dead_opening_that_comes_between_those_of_a_process_that_lives_takes_nothing_from_it() {
    let mut agent = stored(1, "former");
    assert_eq!(opens(&mut agent, "living", 1), 2);
    assert_eq!(opens(&mut agent, "dead", 2), 3);
    assert!(agent.confirm(2, at(3)));
    assert_eq!((number(&agent), agent.candidates.len()), (2, 1));
    // What comes after the dead one has a number of its own.
    assert_eq!(opens(&mut agent, "next", 4), 4);
    assert!(agent.withdraw(4) && !agent.withdraw(4));
    assert_eq!(opens(&mut agent, "last", 5), 5);
    assert_eq!(number(&agent), 2);
}

#[test]
fn a_candidate_is_forgotten_after_ten_minutes_and_its_number_is_not_drawn_again() {
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
fn an_opening_of_a_process_that_was_superseded_or_has_left_changes_nothing() {
    let mut agent = stored(3, "first");
    let second = opens(&mut agent, "second", 1);
    assert!(agent.confirm(second, at(1)));
    let before = agent.clone();
    assert_eq!(agent.open(process("first"), None, at(2)), Opening::Superseded);
    assert_eq!((number(&agent), &agent), (4, &before));
    agent.session.as_mut().unwrap().closed_at = Some(at(3));
    let before = agent.clone();
    for late in ["first", "second"] {
        assert_eq!(agent.open(process(late), None, at(4)), Opening::Superseded, "{late}");
        assert_eq!(agent, before);
    }
    assert_eq!(agent.open(process("third"), None, at(5)), Opening::New);
    assert_eq!((number(&agent), agent.session.unwrap().running), (5, 0));
}

#[test]
fn the_last_eight_openings_before_are_remembered_and_no_more() {
    let mut agent = stored(1, "0");
    for drawn in 1..=9 {
        let number = opens(&mut agent, &drawn.to_string(), drawn);
        assert!(agent.confirm(number, at(drawn)));
    }
    let before = &agent.session.as_ref().unwrap().before;
    assert_eq!(before.iter().map(String::as_str).collect::<String>(), "12345678");
}

#[test]
fn what_a_dead_process_says_of_its_agent_counts_only_once_it_speaks() {
    let mut agent = stored(1, "living");
    let labels = [("zone".to_owned(), "east".to_owned())].into();
    let described =
        Description { runner: None, by_token: None, labels, run_untagged_jobs: Some(true) };
    let opened = agent.open(process("next"), Some(described), at(1));
    assert_eq!(opened, Opening::Candidate(2));
    assert!(agent.labels.is_empty() && agent.run_untagged_jobs.is_none());
    let read: Agent = serde_json::from_value(serde_json::to_value(&agent).unwrap()).unwrap();
    assert_eq!(read, agent);
    assert!(agent.confirm(2, at(2)));
    assert_eq!((agent.labels["zone"].as_str(), agent.run_untagged_jobs), ("east", Some(true)));
    let settled = Agent { settled_at: Some(at(0)), labels: [].into(), ..read };
    assert!(
        settled.as_confirmed(2, at(2)).unwrap().labels.is_empty(),
        "an administrator has set them"
    );
}

proptest! {
    /// In whatever order openings come, processes speak and leave: a session is superseded only by a process that
    /// speaks in a later one, and no number stands for two processes.
    #[test]
    fn no_order_of_openings_and_requests_puts_out_a_process_by_one_that_is_silent(
        words in proptest::collection::vec((0..14_u8, 0..4_u8), 1..80),
    ) {
        let mut agent = stored(1, "-");
        let mut numbers = std::collections::BTreeMap::from([(1, "-".to_owned())]);
        for (second, (drawn, what)) in (1..).zip(words) {
            let (instance, before) = (drawn.to_string(), agent.clone());
            match what {
                0 | 1 => {
                    let opened = agent.open(process(instance.clone()), None, at(second));
                    let was_closed = before.session.as_ref().unwrap().closed_at.is_some();
                    let given = match opened {
                        Opening::New => { prop_assert!(was_closed); number(&agent) }
                        Opening::Again => { prop_assert!(!was_closed); number(&agent) }
                        Opening::Candidate(given) => {
                            prop_assert!(!was_closed || !before.candidates.is_empty());
                            prop_assert_eq!(number(&agent), number(&before));
                            given
                        }
                        Opening::Superseded => { prop_assert_eq!(&agent, &before); continue }
                    };
                    prop_assert_eq!(numbers.entry(given).or_insert(instance.clone()), &instance);
                }
                2 => {
                    let spoken = u64::from(drawn);
                    let counts = agent.confirm(spoken, at(second));
                    let known = before.candidates.iter().any(|known| known.number == spoken);
                    prop_assert!(counts == known && (!counts || spoken > number(&before)));
                    prop_assert!(counts || agent == before);
                }
                _ => agent.session.as_mut().unwrap().closed_at = Some(at(second)),
            }
            prop_assert!(number(&agent) >= number(&before));
            prop_assert_eq!(agent.sessions, number(&agent));
        }
    }
}
