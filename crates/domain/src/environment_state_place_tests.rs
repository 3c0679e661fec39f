//! States that lie where jobs run, so that another place has another one.

use super::*;

#[test]
fn what_an_agent_left_unfinished_on_its_disk_must_be_found_again() {
    let s3 = json!({ "type": "s3", "bucket": "states" });
    let s3: StateStorage = serde_json::from_value(s3).unwrap();
    let run = |status, phase, place: Option<&str>| {
        let mut run = deployment(status, phase, &json!({}));
        run.attempts[0].ran_at = place.map(str::to_owned);
        run
    };
    for (storage, first, next, must_exist) in [
        (at("/old"), Some("berlin"), Some("munich"), true),
        (at("/old"), None, Some("munich"), true),
        (at("/old"), Some("berlin"), Some("berlin"), false),
        (at("/old"), None, None, false),
        (s3.clone(), Some("berlin"), Some("munich"), false),
    ] {
        let (unfinished, next) = (run("failed", "apply", first), run("running", "launch", next));
        // What is known may be an older copy, or one without resources.
        for known in [None, Some(facts("a", 1, 0)), Some(facts("a", 1, 1))] {
            let state = EnvironmentState::in_storage(storage.clone());
            let state = EnvironmentState { facts: known, doubt: UNFINISHED, ..state };
            let environment = environment(Some(state));
            let (_, task) = environment.state_for_job(&next, &storage, Some(&unfinished));
            assert_eq!(task.must_exist, must_exist, "{storage:?} {first:?}");
        }
    }
    // A move to a storage of the whole world looks for it on the disk that it lies on; one to a disk may have got
    // there before, on another one.
    for (from, to) in [(at("/old"), s3.clone()), (s3, at("/new"))] {
        let unfinished = run("failed", "apply", Some("berlin"));
        let change = Some(StorageChange { to: to.clone(), accept: false });
        let state = EnvironmentState::in_storage(from);
        let state = EnvironmentState { doubt: UNFINISHED, change, ..state };
        let environment = environment(Some(state));
        for (place, must_exist) in [("munich", true), ("berlin", false)] {
            let next = run("running", "launch", Some(place));
            let (_, task) = environment.state_for_job(&next, &to, Some(&unfinished));
            assert_eq!(task.must_exist, must_exist, "to {to:?} at {place}");
        }
    }
}

#[test]
fn what_an_unfinished_run_or_a_later_one_has_reported_may_be_found_at_any_place() {
    let run = |status, phase, place: &str| {
        let mut run = deployment(status, phase, &json!({}));
        run.attempts[0].ran_at = Some(place.to_owned());
        run
    };
    let (mut unfinished, next) =
        (run("failed", "apply", "berlin"), run("running", "launch", "munich"));
    let end = Timestamp::from_second(1_000).unwrap();
    unfinished.completed_at = Some(end);
    for (at_second, must_exist) in [(999, true), (1_000, false), (1_001, false)] {
        let by = DeploymentId(Uuid::from_u128(77));
        let reported = Reported { by, attempt: 1, at: Timestamp::from_second(at_second).unwrap() };
        let state = EnvironmentState {
            facts: Some(facts("a", 1, 2)),
            reported: Some(reported),
            doubt: UNFINISHED,
            ..EnvironmentState::in_storage(at("/old"))
        };
        let environment = environment(Some(state));
        let (_, task) = environment.state_for_job(&next, &at("/old"), Some(&unfinished));
        assert_eq!(task.must_exist, must_exist, "{at_second}");
        assert!(
            task.uncertain && task.expected.is_some(),
            "none, or an older one, is still refused"
        );
    }
}
