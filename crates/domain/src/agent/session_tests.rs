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

#[test]
fn the_opening_of_the_living_process_said_again_changes_nothing_but_when_it_was_heard() {
    let mut agent = stored(3, "living");
    let mut heard = agent.clone();
    heard.session.as_mut().unwrap().last_seen = at(7);
    assert_eq!(agent.open(process("living"), at(7)), Opening::Again);
    assert_eq!(agent, heard);
}

#[test]
fn an_opening_of_a_process_that_was_superseded_or_has_left_changes_nothing() {
    let mut agent = stored(3, "first");
    assert_eq!(agent.open(process("second"), at(1)), Opening::New);
    let before = agent.clone();
    assert_eq!(agent.open(process("first"), at(2)), Opening::Superseded);
    assert_eq!((number(&agent), &agent), (4, &before));
    agent.session.as_mut().unwrap().closed_at = Some(at(3));
    let before = agent.clone();
    for late in ["first", "second"] {
        assert_eq!(agent.open(process(late), at(4)), Opening::Superseded, "{late}");
        assert_eq!(agent, before);
    }
    assert_eq!(agent.open(process("third"), at(5)), Opening::New);
    assert_eq!((number(&agent), agent.session.unwrap().running), (5, 0));
}

#[test]
fn the_last_eight_openings_before_are_remembered_and_no_more() {
    let mut agent = stored(1, "0");
    for drawn in 1..=9 {
        assert_eq!(agent.open(process(drawn.to_string()), at(drawn)), Opening::New);
    }
    let before = &agent.session.as_ref().unwrap().before;
    assert_eq!(before.iter().map(String::as_str).collect::<String>(), "12345678");
}

proptest! {
    /// In whatever order openings come and processes leave: each counts once while it is remembered, and a session
    /// is only ever followed by the next.
    #[test]
    fn no_order_of_openings_lets_one_count_twice(words in proptest::collection::vec((0..14_u8, any::<bool>()), 1..80)) {
        let mut agent = stored(1, "-");
        let (mut opened, mut has_left) = (vec!["-".to_owned()], false);
        for (second, (drawn, leaves)) in (1..).zip(words) {
            let (instance, before) = (drawn.to_string(), agent.clone());
            let ago = opened.iter().rev().position(|earlier| *earlier == instance);
            match agent.open(process(instance.clone()), at(second)) {
                Opening::New => {
                    prop_assert!(ago.is_none_or(|ago| ago > REMEMBERED));
                    prop_assert_eq!(number(&agent), number(&before) + 1);
                    (opened, has_left) = ([opened, vec![instance]].concat(), false);
                }
                Opening::Again => {
                    prop_assert!(ago == Some(0) && !has_left);
                    prop_assert_eq!(number(&agent), number(&before));
                }
                Opening::Superseded => {
                    prop_assert!(ago.is_some_and(|ago| has_left || ago > 0));
                    prop_assert_eq!(&agent, &before);
                }
            }
            if leaves {
                agent.session.as_mut().unwrap().closed_at = Some(at(second));
                has_left = true;
            }
        }
    }
}
