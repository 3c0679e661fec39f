//! States that a run could not write.

use super::*;
use crate::unwritten_state::UnwrittenState;

const RUN: DeploymentId = DeploymentId(Uuid::from_u128(2));

fn digested(lineage: &str, serial: u64, resources: u32, digest: &str) -> StateFacts {
    StateFacts { digest: Some(digest.to_owned()), ..facts(lineage, serial, resources) }
}

fn written() -> StateFacts {
    digested("a", 9, 5, "all five")
}

/// A deployment that says that it could not write its state.
fn losing(extra: &Value, state: Option<StateFacts>) -> Deployment {
    let mut deployment = deployment("failed", "apply", extra);
    deployment.could_not_write_state(1, state);
    deployment
}

fn task(state: EnvironmentState, extra: &Value) -> crate::job::StateTask {
    let storage = state.storage.clone();
    let mut environment = environment(Some(state));
    let run = deployment("launching", "launch", extra);
    environment.record_state_location(&run, &storage, &[]).unwrap();
    environment.state_for_job(&run, &storage, None).1
}

#[test]
fn a_state_that_was_not_written_is_looked_for_by_each_run_until_an_administrator_accepts_another() {
    // Nothing of a state was seen, on a first apply and on a later one; or what lay there before was.
    let mut before = report("a", 7, 3);
    before["state"]["incomplete"] = json!(true);
    let first = EnvironmentState::in_storage(at("/old"));
    // A report without anything incomplete describes what lay there before, too.
    let complete = (in_old(3), report("a", 7, 3));
    for (known, seen) in [(first, json!({})), (in_old(3), json!({})), (in_old(3), before), complete]
    {
        let after = settled(&known, &losing(&seen, Some(written())));
        let unwritten = UnwrittenState { by: RUN, facts: Some(written()) };
        assert_eq!((&after.unwritten, after.doubt), (&Some(unwritten.clone()), UNFINISHED));
        assert_eq!(after.facts, known.facts, "the storage has the state from before");
        assert!(after.may_hold_resources());
        for kind in [json!({}), json!({ "plan_only": true }), json!({ "mode": "destroy" })] {
            let task = task(after.clone(), &kind);
            assert_eq!(task.unwritten, Some(unwritten.clone()), "{kind}");
            // It ends before its plan, or is lost before.
            let ended = deployment("failed", "plan", &kind);
            assert_eq!(settled(&after, &ended).unwritten, Some(unwritten.clone()), "{kind}");
        }
        // What is in no state may be imported. That it was all of it, only an administrator knows.
        let imported =
            json!({ "mode": "state", "state": { "lineage": "a", "serial": 9, "resources": 4 } });
        let imported = settled(&after, &deployment("succeeded", "apply", &imported));
        assert_eq!((&imported.unwritten, imported.doubt), (&Some(unwritten.clone()), UNFINISHED));
        assert_eq!(imported.facts, Some(facts("a", 9, 4)));
        let accept = json!({ "accept_state": true });
        assert_eq!(task(after.clone(), &accept).unwritten, None);
        let refused = deployment("failed", "plan", &accept);
        assert_eq!(settled(&after, &refused).unwritten, Some(unwritten), "it took no effect");
        let mut accepted = report("a", 12, 5);
        accepted["accept_state"] = json!(true);
        let accepted = settled(&after, &deployment("succeeded", "apply", &accepted));
        assert_eq!((accepted.unwritten, accepted.doubt), (None, None));
        assert_eq!(accepted.facts, Some(facts("a", 12, 5)));
    }
}

#[test]
fn a_run_that_came_past_its_look_has_found_the_state_that_was_not_written() {
    let unwritten = Some(UnwrittenState { by: DeploymentId(Uuid::from_u128(1)), facts: None });
    let known = EnvironmentState { unwritten: unwritten.clone(), doubt: UNFINISHED, ..in_old(3) };
    for (status, phase, extra) in [
        ("succeeded", "plan", json!({ "plan_only": true })),
        ("succeeded", "apply", json!({})),
        ("failed", "apply", report("a", 10, 4)),
        ("failed", "plan", report("a", 9, 4)),
        ("failed", "apply", json!({})),
    ] {
        let after = settled(&known, &deployment(status, phase, &extra));
        assert_eq!(after.unwritten, None, "{status} {phase} {extra}");
    }
    // With tokens of the apply it moves the state first, and looks afterwards.
    let change = Some(StorageChange { to: at("/new"), accept: false });
    let moving = EnvironmentState { change, ..known };
    let after = settled(&moving, &deployment("failed", "apply", &json!({})));
    assert_eq!(after.unwritten, unwritten);
}

#[test]
fn a_destroy_run_that_could_not_write_its_state_creates_nothing_twice() {
    let after = settled(&in_old(3), &losing(&json!({ "mode": "destroy" }), Some(written())));
    assert_eq!((after.unwritten, after.doubt), (None, None));
}

#[test]
fn only_the_state_that_was_to_be_written_has_arrived() {
    let (before, written) = (facts("a", 7, 3), written());
    let unwritten = UnwrittenState { by: RUN, facts: Some(written.clone()) };
    for (found, has_arrived, where_there_was_none) in [
        (Some(written.clone()), true, true),
        (Some(digested("a", 18, 5, "all five")), true, true),
        // The storage has drawn a lineage of its own.
        (Some(digested("b", 1, 5, "all five")), false, true),
        (Some(digested("a", 8, 5, "all five")), false, true),
        // A newer serial alone says nothing, nor does what is known.
        (Some(digested("a", 10, 5, "others")), false, false),
        (Some(facts("a", 10, 5)), false, false),
        (Some(before.clone()), false, false),
        (None, false, false),
    ] {
        let found = found.as_ref();
        assert_eq!(unwritten.has_arrived(Some(&before), found), has_arrived, "{found:?}");
        assert_eq!(unwritten.has_arrived(None, found), where_there_was_none, "{found:?}");
        let unknown = UnwrittenState { by: RUN, facts: None };
        assert!(!unknown.has_arrived(None, found), "nothing is known of it");
    }
}

#[test]
fn a_record_of_an_earlier_version_reads_as_one_whose_states_were_all_written() {
    let stored = serde_json::to_value(in_old(3)).unwrap();
    assert!(stored.get("unwritten").is_none(), "an earlier version reads it: {stored}");
    assert_eq!(serde_json::from_value::<EnvironmentState>(stored).unwrap(), in_old(3));
}
