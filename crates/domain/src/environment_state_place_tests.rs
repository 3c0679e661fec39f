//! States in storage of the machine or cluster that runs the jobs, so that each has its own.

use super::*;
use crate::module_record::ModuleRecord;

#[test]
fn a_state_that_an_unfinished_run_left_on_an_agents_disk_must_be_found_again() {
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
        // The recorded facts may be of an older version, or of one without resources.
        for known in [None, Some(facts("a", 1, 0)), Some(facts("a", 1, 1))] {
            let state = EnvironmentState::in_storage(storage.clone());
            let state = EnvironmentState { facts: known, doubt: UNFINISHED, ..state };
            let environment = environment(Some(state));
            let (_, task) = environment.state_for_job(&next, &storage, Some(&unfinished));
            assert_eq!(task.must_exist, must_exist, "{storage:?} {first:?}");
        }
    }
    // A move from a disk to a global storage looks for the state on the disk that holds it. A move to a disk
    // may have run before, on another machine.
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
fn a_state_that_was_reported_after_the_unfinished_run_may_be_found_on_any_machine() {
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

#[test]
fn resources_of_an_environment_without_a_deployment_are_those_to_adopt() {
    let adopt = |resources, applied: Option<u128>| {
        let state = EnvironmentState { facts: Some(facts("a", 1, resources)), ..in_old(0) };
        let applied = applied.map(|number| DeploymentId(Uuid::from_u128(number)));
        ModuleRecord { applied, ..environment(Some(state)).module }.unadopted_resources()
    };
    assert_eq!([adopt(3, None), adopt(0, None), adopt(3, Some(1))], [Some(3), None, None]);
    assert_eq!(environment(None).module.unadopted_resources(), None);
}
