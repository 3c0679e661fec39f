use super::*;
use crate::attempt::Salvage;
use crate::environment_end::AfterEnd;
use crate::failure::Phase;
use crate::inventory::{Environment, EnvironmentStatus};
use serde_json::{Value, json};
use uuid::Uuid;

const ID: &str = "00000000-0000-7000-8000-000000000001";
/// The doubt after a deployment of these tests that has not reported everything that it left.
const UNFINISHED: Option<Doubt> = Some(Doubt::Unfinished(DeploymentId(Uuid::from_u128(2))));

fn facts(lineage: &str, serial: u64, resources: u32) -> StateFacts {
    StateFacts { lineage: lineage.to_owned(), serial, resources, digest: None }
}

fn at(path: &str) -> StateStorage {
    StateStorage::Local { path: path.to_owned() }
}

fn environment(state: Option<EnvironmentState>) -> Environment {
    let value = json!({
        "id": "dev", "uuid": ID, "project_id": "shop", "project_uuid": ID,
        "env_type_id": "development", "display_name": "Development", "status": "active",
        "runner_id": "laptop", "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "version": 1,
    });
    let mut environment: Environment = serde_json::from_value(value).unwrap();
    environment.module.state = state;
    environment
}

fn deployment(status: &str, phase: &str, extra: &Value) -> Deployment {
    let attempt = json!({
        "number": 1, "fence": 1, "launched_at": "2026-01-01T00:00:00Z",
        "limits": { "start": 300, "run": 3_600, "stop": 30 }, "claim_hash": "h", "phase": phase,
    });
    let _: Attempt = serde_json::from_value(attempt.clone()).unwrap();
    let mut value = json!({
        "id": Uuid::from_u128(2), "project": "shop", "env": "dev", "env_uuid": ID,
        "runner": "laptop", "mode": "deploy", "status": status,
        "created_at": "2026-01-01T00:00:00Z", "created_by": ID, "attempts": [attempt], "version": 1,
    });
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn report(lineage: &str, serial: u64, resources: u32) -> Value {
    json!({ "state": { "lineage": lineage, "serial": serial, "resources": resources } })
}

#[test]
fn a_run_works_only_on_the_lineage_that_it_left_and_on_no_older_serial() {
    let of = |digest: &str, facts| StateFacts { digest: Some(digest.to_owned()), ..facts };
    let expected = of("x", facts("a", 7, 3));
    let cases = [
        (Some(facts("a", 7, 3)), "right"),
        (Some(of("x", facts("a", 7, 3))), "right"),
        (Some(of("y", facts("a", 8, 3))), "right"),
        (Some(of("y", facts("a", 7, 3))), "exchanged"),
        (Some(facts("a", 9, 5)), "right"),
        (Some(facts("a", 7, 0)), "altered"),
        (Some(facts("a", 6, 3)), "older"),
        (Some(facts("b", 7, 3)), "lineage"),
        (Some(facts("b", 99, 3)), "lineage"),
        (None, "missing"),
    ];
    for (found, verdict) in cases {
        let result = match compare(Some(&expected), false, found.as_ref()) {
            Ok(()) => "right",
            Err(StateMismatch::Altered { .. }) => "altered",
            Err(StateMismatch::Exchanged { .. }) => "exchanged",
            Err(StateMismatch::Older { .. }) => "older",
            Err(StateMismatch::OtherLineage { .. }) => "lineage",
            Err(StateMismatch::Missing { .. }) => "missing",
        };
        assert_eq!(result, verdict, "{found:?}");
        let found = found.as_ref();
        assert_eq!(compare(None, true, found), Ok(()), "nothing is known: {found:?}");
        // Without resources nothing can be abandoned, unless a later run may have created some. But a state
        // with resources is another one.
        let empty = facts("a", 7, 0);
        let is_right =
            found.is_some_and(|found| *found == empty || verdict == "right" && found.serial > 7);
        let is_none = found.is_none_or(|found| found.resources == 0);
        assert_eq!(compare(Some(&empty), false, found).is_ok(), is_right || is_none, "{found:?}");
        assert_eq!(compare(Some(&empty), true, found).is_ok(), is_right, "{found:?}");
    }
}

fn launched(
    state: Option<EnvironmentState>,
    deployment: &Deployment,
    former: &[StateStorage],
) -> Result<EnvironmentState, StorageMismatch> {
    EnvironmentState::at_launch(state, deployment, &at("/new"), former)
}

fn in_old(resources: u32) -> EnvironmentState {
    EnvironmentState {
        facts: Some(facts("a", 7, resources)),
        ..EnvironmentState::in_storage(at("/old"))
    }
}

#[test]
fn a_state_with_resources_is_given_up_only_by_a_move_or_by_an_administrators_permission() {
    let deploy = deployment("launching", "launch", &json!({}));
    let plan = deployment("launching", "launch", &json!({ "plan_only": true }));
    let accepting = deployment("launching", "launch", &json!({ "accept_state": true }));
    // Nothing is known, or nothing would be abandoned: the runner's storage becomes the environment's.
    for state in [None, Some(in_old(0)), Some(EnvironmentState::in_storage(at("/old")))] {
        let had_one = state.as_ref().is_some_and(|state| state.facts.is_some());
        let state = launched(state, &deploy, &[]).unwrap();
        assert_eq!((state.storage, state.facts, state.change), (at("/new"), None, None));
        assert_eq!(state.vacant, had_one, "a state that exists there is not its own");
    }
    let planned = launched(None, &plan, &[]).unwrap();
    assert!(!planned.may_hold_resources(), "a plan makes no state");
    // The same location, written differently.
    let same =
        EnvironmentState { facts: in_old(3).facts, ..EnvironmentState::in_storage(at("/new/")) };
    assert_eq!(launched(Some(same), &deploy, &[]).unwrap().facts, Some(facts("a", 7, 3)));
    // Resources would be abandoned.
    let uncertain = EnvironmentState::unrecorded(at("/old"));
    for state in [in_old(3), uncertain] {
        for run in [&deploy, &plan] {
            launched(Some(state.clone()), run, &[]).unwrap_err();
        }
        let accepted = launched(Some(state.clone()), &accepting, &[]).unwrap();
        assert_eq!(accepted.change, Some(StorageChange { to: at("/new"), accept: true }));
        let allowed = EnvironmentState { may_move_to: Some(at("/new")), ..state.clone() };
        let elsewhere = EnvironmentState { may_move_to: Some(at("/third")), ..state.clone() };
        launched(Some(elsewhere.clone()), &deploy, &[]).unwrap_err();
        // The runner that may receive it keeps states elsewhere now, and may move them.
        let moving = launched(Some(elsewhere), &deploy, &[at("/third")]).unwrap();
        assert_eq!(moving.change, Some(StorageChange { to: at("/new"), accept: false }));
        for (state, former) in [(allowed, vec![]), (state, vec![at("/x"), at("/old")])] {
            let moving = launched(Some(state.clone()), &deploy, &former).unwrap();
            assert_eq!(moving.change, Some(StorageChange { to: at("/new"), accept: false }));
            assert_eq!(moving.storage, at("/old"), "until the run has moved it");
            let planned = launched(Some(state), &plan, &former).unwrap();
            assert_eq!(
                (planned.storage, planned.change),
                (at("/old"), None),
                "a plan moves nothing"
            );
        }
    }
}

fn settled(state: &EnvironmentState, deployment: &Deployment) -> EnvironmentState {
    let mut state = state.clone();
    state.record_end(deployment);
    assert_eq!(state.change, None);
    state
}

#[test]
fn an_end_records_the_runs_report_and_a_move_counts_when_it_was_reported() {
    let moving = EnvironmentState {
        change: Some(StorageChange { to: at("/new"), accept: false }),
        may_move_to: Some(at("/new")),
        ..in_old(3)
    };
    let mut moved = report("a", 9, 4);
    moved["state"]["moved"] = json!(true);
    let after = settled(&moving, &deployment("succeeded", "apply", &moved));
    assert_eq!(
        (after.storage, after.facts, after.may_move_to),
        (at("/new"), Some(facts("a", 9, 4)), None)
    );
    // The state was moved, and then the plan failed.
    let after = settled(&moving, &deployment("failed", "plan", &moved));
    assert_eq!(after.storage, at("/new"));
    // Without a report, the next run repeats the move.
    let after = settled(&moving, &deployment("failed", "apply", &json!({})));
    assert_eq!((&after.storage, after.doubt), (&at("/old"), UNFINISHED));
    assert_eq!(after.may_move_to, Some(at("/new")));
    assert_eq!(after.facts, Some(facts("a", 7, 3)), "what is known still counts");
    // A run that did not reach its apply changes only what it has reported.
    assert_eq!(settled(&in_old(3), &deployment("failed", "plan", &json!({}))), in_old(3));
    let after = settled(&in_old(3), &deployment("failed", "apply", &report("a", 8, 2)));
    assert_eq!((after.facts, after.doubt), (Some(facts("a", 8, 2)), None));
    // A deployment that was cancelled while it waited does not affect what the running one does.
    let mut waited = deployment("cancelled", "launch", &json!({}));
    waited.attempts.clear();
    let mut state = moving.clone();
    state.record_end(&waited);
    assert_eq!(state, moving);
}

#[test]
fn only_a_complete_deployment_ends_the_doubt_that_a_run_has_left() {
    let run =
        |state: &EnvironmentState, status, phase, mode: &str, report: &Value, more: &Value| {
            let mut extra = json!({ "mode": mode });
            extra.as_object_mut().unwrap().extend(report.as_object().unwrap().clone());
            extra.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            settled(state, &deployment(status, phase, &extra)).doubt
        };
    let none = json!({});
    let empty = in_old(0);
    // The state was not written, or the killed run may have created more than it had written.
    let mut incomplete = report("a", 7, 0);
    incomplete["state"]["incomplete"] = json!(true);
    assert_eq!(run(&empty, "failed", "apply", "deploy", &incomplete, &none), UNFINISHED);
    let orphans = json!({ "kept": { "orphans": 2 } });
    assert_eq!(run(&empty, "failed", "apply", "deploy", &report("a", 7, 0), &orphans), UNFINISHED);
    assert_eq!(run(&empty, "failed", "apply", "deploy", &none, &none), UNFINISHED, "no report");
    // The run got no cloud tokens for its apply, or was stopped before it.
    let mut untouched = deployment("failed", "apply", &none);
    untouched.attempts[0].apply = ApplyNote::NotBegun;
    assert_eq!(settled(&empty, &untouched).doubt, None);
    let mut forgetful = deployment("failed", "apply", &json!({ "mode": "destroy" }));
    forgetful.attempts[0].apply = ApplyNote::Forgets;
    assert_eq!(settled(&in_old(3), &forgetful).doubt, UNFINISHED);
    // The run succeeded, and only its last read of the state failed.
    let unseen = Some(Doubt::Unseen(DeploymentId(Uuid::from_u128(2))));
    assert_eq!(run(&empty, "succeeded", "apply", "deploy", &none, &none), unseen);
    let in_doubt = EnvironmentState { doubt: unseen, ..in_old(0) };
    assert_eq!(run(&in_doubt, "failed", "plan", "deploy", &report("a", 8, 1), &none), None);
    assert_eq!(run(&in_doubt, "succeeded", "apply", "destroy", &none, &none), unseen);
    assert_eq!(run(&empty, "failed", "apply", "deploy", &report("a", 8, 1), &none), None);
    // A destroy run creates nothing, and may remove resources from the state without destroying them.
    assert_eq!(run(&in_old(3), "failed", "apply", "destroy", &none, &none), None);
    assert_eq!(run(&in_old(3), "failed", "apply", "destroy", &report("a", 8, 0), &none), None);
    assert_eq!(run(&in_old(3), "failed", "apply", "destroy", &incomplete, &none), UNFINISHED);

    let doubtful = EnvironmentState { doubt: UNFINISHED, ..in_old(0) };
    assert!(doubtful.may_hold_resources());
    let plan_only = json!({ "plan_only": true });
    let whole = report("a", 8, 2);
    assert_eq!(run(&doubtful, "succeeded", "plan", "deploy", &whole, &plan_only), UNFINISHED);
    assert_eq!(run(&doubtful, "failed", "plan", "deploy", &whole, &none), UNFINISHED);
    assert_eq!(run(&doubtful, "failed", "apply", "deploy", &whole, &none), UNFINISHED);
    assert_eq!(run(&doubtful, "succeeded", "apply", "destroy", &whole, &none), UNFINISHED);
    assert_eq!(run(&doubtful, "succeeded", "apply", "deploy", &whole, &none), None);
    assert_eq!(run(&doubtful, "succeeded", "plan", "deploy", &whole, &none), None, "no changes");
    // A run of a part of the module leaves and ends no doubt.
    let partial = json!({ "partial": true });
    assert_eq!(run(&doubtful, "succeeded", "apply", "deploy", &whole, &partial), UNFINISHED);
    assert_eq!(run(&doubtful, "succeeded", "apply", "deploy", &none, &partial), UNFINISHED);
    assert_eq!(run(&empty, "succeeded", "apply", "deploy", &whole, &partial), None);
    assert_eq!(run(&empty, "succeeded", "apply", "deploy", &none, &partial), unseen);
    // An administrator's permission does not end the doubt either.
    let accepting = EnvironmentState {
        change: Some(StorageChange { to: at("/new"), accept: true }),
        ..doubtful.clone()
    };
    let accept = json!({ "accept_state": true });
    assert_eq!(run(&accepting, "failed", "apply", "deploy", &whole, &accept), UNFINISHED);
    assert_eq!(run(&accepting, "succeeded", "apply", "deploy", &whole, &accept), None);
    // For a state of an earlier version, each read reports as much as there is to know.
    let unrecorded = EnvironmentState::unrecorded(at("/old"));
    assert_eq!(run(&unrecorded, "succeeded", "plan", "deploy", &whole, &plan_only), None);
}

#[test]
fn an_accepted_state_takes_effect_only_when_the_run_did() {
    let accepting = EnvironmentState {
        change: Some(StorageChange { to: at("/new"), accept: true }),
        ..in_old(3)
    };
    let run = |status, phase, plan_only, report: &Value| {
        let mut extra = report.clone();
        extra["accept_state"] = json!(true);
        extra["plan_only"] = json!(plan_only);
        settled(&accepting, &deployment(status, phase, &extra))
    };
    let after = run("succeeded", "apply", false, &report("b", 1, 5));
    assert_eq!((after.storage, after.facts), (at("/new"), Some(facts("b", 1, 5))));
    let after = run("failed", "apply", false, &json!({}));
    assert_eq!((after.storage, after.facts, after.doubt), (at("/new"), None, UNFINISHED));
    // There was nothing to change, and the last read of the state failed.
    let after = run("succeeded", "plan", false, &json!({}));
    assert_eq!(
        (after.storage, after.facts, after.doubt),
        (at("/new"), None, Some(Doubt::Unrecorded))
    );
    for (status, plan_only) in [("failed", false), ("succeeded", true)] {
        let after = run(status, "plan", plan_only, &report("b", 1, 5));
        assert_eq!(after, EnvironmentState { change: None, ..in_old(3) }, "{status}");
    }
}

#[test]
fn a_state_in_the_new_storage_of_an_empty_environment_never_becomes_its_own() {
    let mut environment = environment(Some(in_old(0)));
    environment.module.applied = Some(DeploymentId(Uuid::from_u128(1)));
    let new = at("/new");
    for mode in ["deploy", "destroy", "deploy"] {
        // Each run fails, because a state exists there.
        let run = deployment("failed", "plan", &json!({ "mode": mode }));
        environment.record_state_location(&run, &new, &[]).unwrap();
        let (storage, task) = environment.state_for_job(&run, &new, None);
        assert_eq!((storage, task.vacant, task.uncertain), (&new, true, false), "{mode}");
        assert!(!environment.may_hold_resources(), "it can change to another storage");
        let AfterEnd::Stay(after, _) = environment.after_end(&run) else { panic!("it stays") };
        environment = *after;
    }
}

#[test]
fn the_report_of_an_attempt_does_not_count_for_the_next_one() {
    let mut environment =
        environment(Some(EnvironmentState { may_move_to: Some(at("/new")), ..in_old(3) }));
    let mut deploy = deployment("launching", "launch", &json!({}));
    environment.record_state_location(&deploy, &at("/new"), &[]).unwrap();
    // The first attempt has moved the state, and was evicted in its plan.
    let mut moved = report("a", 16, 3);
    moved["state"]["moved"] = json!(true);
    let reported = deployment("launching", "plan", &moved);
    (deploy.state, deploy.attempts) = (reported.state, reported.attempts);
    let now = deploy.created_at;
    let attempt = deploy.attempts[0].clone();
    deploy.attempts[0].ended =
        Some(crate::attempt::Ended { at: now, outcome: crate::attempt::Outcome::Succeeded });
    // Meanwhile the runner keeps states elsewhere again.
    environment.module.state.as_mut().unwrap().may_move_to = Some(at("/third"));
    environment.record_state_location(&deploy, &at("/third"), &[]).unwrap_err();
    environment.record_state_location(&deploy, &at("/new"), &[]).unwrap();
    let (hash, limits) = (attempt.claim_hash, attempt.limits);
    crate::lifecycle::launch(&mut deploy, 2, hash, limits, now).unwrap();
    assert_eq!(deploy.state, None);
    // The next attempt applies, and is lost.
    deploy.attempts.last_mut().unwrap().phase = Phase::Apply;
    deploy.status = Status::Failed;
    let AfterEnd::Stay(after, _) = environment.after_end(&deploy) else { panic!("it stays") };
    let state = after.module.state.unwrap();
    assert_eq!((state.storage, state.facts), (at("/new"), Some(facts("a", 16, 3))));
    assert_eq!(state.doubt, UNFINISHED);
}

#[test]
fn an_environment_whose_destroy_run_left_resources_is_not_removed() {
    let destroy = |resources| {
        let mut extra = report("a", 9, resources);
        extra["mode"] = json!("destroy");
        deployment("succeeded", "apply", &extra)
    };
    let mut environment = environment(Some(in_old(3)));
    environment.removed_by = Some(destroy(0).id);
    environment.module.applied = Some(DeploymentId(Uuid::from_u128(1)));
    assert_eq!(environment.after_end(&destroy(0)), AfterEnd::Remove);
    // An earlier run may have created resources that no state lists: a user must check.
    let mut doubtful = environment.clone();
    doubtful.module.state.as_mut().unwrap().doubt =
        Some(Doubt::Unfinished(DeploymentId(Uuid::from_u128(3))));
    let AfterEnd::Stay(after, _) = doubtful.after_end(&destroy(0)) else {
        panic!("it was removed")
    };
    assert_eq!(after.status, EnvironmentStatus::DeleteFailed);
    insta::assert_snapshot!(after.status_message.unwrap(), @"the destroy run 00000000-0000-0000-0000-000000000002 has destroyed all that the state lists, but the deployment 00000000-0000-0000-0000-000000000003 did not report everything that it left: check its log and its orphans, remove what is left, and delete the environment with `canyon delete environment shop dev --force`. A later deployment that succeeds ends that doubt, too");
    let AfterEnd::Stay(after, _) = environment.after_end(&destroy(2)) else {
        panic!("it was removed")
    };
    assert_eq!(after.status, EnvironmentStatus::DeleteFailed);
    assert!(after.module.applied.is_some(), "it can be destroyed once more");
    let whole = deployment("succeeded", "apply", &report("a", 10, 2));
    let AfterEnd::Stay(again, _) = after.after_end(&whole) else { panic!("it was removed") };
    assert_eq!((again.status, again.status_message), (EnvironmentStatus::Active, None));
    insta::assert_snapshot!(after.status_message.unwrap(), @"the destroy run 00000000-0000-0000-0000-000000000002 succeeded, but its state at `/old/00000000-0000-7000-8000-000000000001.tfstate` still has 2 resources: remove what is left, or leave it behind with `canyon delete environment shop dev --force`");
}

#[test]
fn an_environment_of_an_earlier_version_has_its_state_where_its_runner_kept_it() {
    let mut environment = environment(None);
    environment.module.applied = Some(DeploymentId(Uuid::from_u128(1)));
    assert!(environment.may_hold_resources());
    let deploy = deployment("launching", "launch", &json!({}));
    environment.record_state_location(&deploy, &at("/old"), &[]).unwrap();
    assert_eq!(environment.module.state, Some(EnvironmentState::unrecorded(at("/old"))));
    environment.record_state_location(&deploy, &at("/new"), &[]).unwrap_err();
}

#[path = "environment_state_place_tests.rs"]
mod places;

#[path = "environment_state_unwritten_tests.rs"]
mod unwritten;

#[test]
fn a_run_in_another_storage_is_in_doubt_itself_unless_it_is_known_to_have_created_nothing() {
    let earlier = Some(Doubt::Unfinished(DeploymentId(Uuid::from_u128(1))));
    let changing = |accept| {
        let change = Some(StorageChange { to: at("/new"), accept });
        EnvironmentState { doubt: earlier, change, ..in_old(3) }
    };
    let accepting = deployment("failed", "apply", &json!({ "accept_state": true }));
    assert_eq!(settled(&changing(true), &accepting).doubt, UNFINISHED);
    let mut moving = deployment("failed", "apply", &json!({}));
    assert_eq!(settled(&changing(false), &moving).doubt, earlier, "killed before it looked");
    moving.set_salvage(1, Salvage::Pending, Timestamp::UNIX_EPOCH);
    assert_eq!(settled(&changing(false), &moving).doubt, UNFINISHED, "what it left is unread");
    moving.set_salvage(1, Salvage::Done, Timestamp::UNIX_EPOCH);
    moving.kept.orphans = 1;
    assert_eq!(settled(&changing(false), &moving).doubt, UNFINISHED);
}
