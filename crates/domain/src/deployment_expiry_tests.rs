use super::*;
use crate::drift::DriftRecord;
use crate::environment_state::{Doubt, EnvironmentState};
use crate::ids::DeploymentId;
use crate::logs_removal::LogsRemoval;
use crate::mode::Mode;
use crate::module_record::ModuleRecord;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

const ENV: &str = "00000000-0000-7000-8000-000000000001";
const NOW: &str = "2026-06-01T00:00:00Z";
/// 2026-06-01 is 90 days after it.
const END: &str = "2026-03-03T00:00:00Z";

fn id(number: u128) -> DeploymentId {
    DeploymentId(Uuid::from_u128(number))
}

fn environment() -> Environment {
    let value = json!({
        "id": "dev", "uuid": ENV, "project_id": "shop", "project_uuid": ENV,
        "env_type_id": "development", "display_name": "Development", "status": "active",
        "runner_id": "laptop", "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

/// An environment whose deployment 9 was the last success.
fn later_success() -> Environment {
    let (last_success, applied) = (Some(id(9)), Some(id(9)));
    let module = ModuleRecord { applied, last_success, ..ModuleRecord::default() };
    Environment { module, ..environment() }
}

/// The same, whose drift these checks have found, or are to find.
fn checked_by(check: Option<DeploymentId>, checking: Option<DeploymentId>) -> Environment {
    let drift = DriftRecord { check, checking, ..DriftRecord::default() };
    Environment { drift: Some(Box::new(drift)), ..later_success() }
}

/// An attempt that a runner claimed, with this end.
fn attempt(outcome: &str, class: Option<&str>) -> Value {
    let mut ended = json!({ "at": END, "outcome": outcome });
    if let Some(class) = class {
        ended["failure"] = json!({ "class": class, "message": "m" });
    }
    let claim = json!({
        "claimant": "c", "at": END, "token_hash": "h", "heartbeat_at": END,
    });
    json!({
        "number": 1, "fence": 1, "launched_at": END, "claim": claim, "ended": ended,
        "limits": { "start": 300, "run": 3_600, "stop": 30 }, "claim_hash": "h", "phase": "plan",
    })
}

/// Deployment 5, which ended with this status.
fn ended(status: &str) -> Deployment {
    let value = json!({
        "id": id(5), "project": "shop", "env": "dev", "env_uuid": ENV, "runner": "laptop",
        "mode": "deploy", "plan_only": false, "status": status, "created_at": END,
        "created_by": ENV, "attempts": [attempt("succeeded", None)], "completed_at": END, "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

fn with_attempt(attempt: Value) -> Deployment {
    let attempts = vec![serde_json::from_value(attempt).unwrap()];
    Deployment { attempts, ..ended("failed") }
}

fn days(deployments: Option<u32>, logs: Option<u32>) -> Retention {
    Retention { deployments_days: deployments, logs_days: logs, audit_days: None }
}

fn expiry(
    retention: Retention,
    deployment: &Deployment,
    environment: Option<&Environment>,
) -> Expiry {
    retention.expiry(deployment, environment, NOW.parse().unwrap())
}

#[test]
fn a_deployment_goes_after_its_days_and_its_log_alone_before() {
    for (deployments, logs, expected) in [
        (None, None, Expiry::Nothing),
        (Some(91), None, Expiry::Nothing),
        (Some(90), None, Expiry::Deployment { days: 90 }),
        (Some(91), Some(91), Expiry::Nothing),
        (Some(91), Some(90), Expiry::Logs { days: 90 }),
        (None, Some(1), Expiry::Logs { days: 1 }),
        (Some(90), Some(1), Expiry::Deployment { days: 90 }),
    ] {
        for environment in [Some(later_success()), None] {
            let found = expiry(days(deployments, logs), &ended("succeeded"), environment.as_ref());
            assert_eq!(found, expected, "{deployments:?}, {logs:?}, {environment:?}");
        }
    }
}

#[test]
fn a_removed_log_is_removed_once_and_a_removal_that_was_interrupted_again() {
    let removed = |pending| {
        let removal = LogsRemoval { at: END.parse().unwrap(), days: 7, pending };
        Deployment { logs_removed: Some(removal), ..ended("succeeded") }
    };
    assert_eq!(expiry(days(None, Some(7)), &removed(false), None), Expiry::Nothing);
    assert_eq!(expiry(days(None, Some(7)), &removed(true), None), Expiry::Logs { days: 7 });
    let whole = expiry(days(Some(7), Some(7)), &removed(false), None);
    assert_eq!(whole, Expiry::Deployment { days: 7 });
}

#[test]
fn what_an_environment_refers_to_is_never_removed() {
    let storage = json!({ "type": "local", "path": "/srv/state" });
    let state = EnvironmentState::in_storage(serde_json::from_value(storage).unwrap());
    let doubt = |doubt| Some(EnvironmentState { doubt: Some(doubt), ..state.clone() });
    let of_run = Some(id(5));
    let base = later_success();
    let of = |module: ModuleRecord| Environment { module, ..base.clone() };
    let known = base.module.clone();
    for (reason, environment) in [
        ("last success", of(ModuleRecord { last_success: of_run, ..known.clone() })),
        ("destroy", of(ModuleRecord { applied: of_run, ..known.clone() })),
        (
            "destroy, if the next fails",
            of(ModuleRecord { applied_before: of_run, ..known.clone() }),
        ),
        ("deletion", Environment { removed_by: of_run, ..base.clone() }),
        ("doubt", of(ModuleRecord { state: doubt(Doubt::Unfinished(id(5))), ..known.clone() })),
        ("unseen", of(ModuleRecord { state: doubt(Doubt::Unseen(id(5))), ..known.clone() })),
        ("drift", checked_by(of_run, None)),
        ("open check", checked_by(None, of_run)),
        ("unrecorded last success", environment()),
    ] {
        let found = expiry(days(Some(1), Some(1)), &ended("succeeded"), Some(&environment));
        assert_eq!(found, Expiry::Nothing, "{reason}");
        // Another environment of the same name, after that one was deleted.
        let another = Environment { uuid: crate::ids::EnvUuid(Uuid::from_u128(2)), ..environment };
        let found = expiry(days(Some(1), Some(1)), &ended("succeeded"), Some(&another));
        assert_eq!(found, Expiry::Deployment { days: 1 }, "{reason}");
    }
    let plan = Deployment { plan_only: true, ..ended("succeeded") };
    let found = expiry(days(Some(1), None), &plan, Some(&environment()));
    assert_eq!(found, Expiry::Deployment { days: 1 }, "a plan is no success of an environment");
}

#[test]
fn a_run_that_may_have_left_a_lock_stays_until_a_later_success() {
    for (outcome, class, is_kept) in [
        ("succeeded", None, false),
        ("failed", Some("user"), false),
        ("failed", Some("lost"), true),
        ("failed", Some("timeout"), true),
        ("failed", Some("oom"), true),
        ("cancelled", None, true),
    ] {
        let run = with_attempt(attempt(outcome, class));
        let before = Environment {
            module: ModuleRecord { last_success: Some(id(4)), ..ModuleRecord::default() },
            ..environment()
        };
        let expected = if is_kept { Expiry::Nothing } else { Expiry::Deployment { days: 1 } };
        let found = expiry(days(Some(1), None), &run, Some(&before));
        assert_eq!(found, expected, "{outcome}, {class:?}");
        let found = expiry(days(Some(1), None), &run, Some(&later_success()));
        assert_eq!(found, Expiry::Deployment { days: 1 }, "{outcome}, {class:?}, a later success");
        let check = Deployment { mode: Mode::Drift, plan_only: true, ..run };
        let found = expiry(days(Some(1), None), &check, Some(&before));
        assert_eq!(found, Expiry::Deployment { days: 1 }, "{outcome}, {class:?}, without a lock");
    }
    let mut unclaimed = attempt("failed", Some("lost"));
    unclaimed["claim"] = Value::Null;
    let before = Environment {
        module: ModuleRecord { last_success: Some(id(4)), ..ModuleRecord::default() },
        ..environment()
    };
    let found = expiry(days(Some(1), None), &with_attempt(unclaimed), Some(&before));
    assert_eq!(found, Expiry::Deployment { days: 1 }, "no program of it ran");
}

#[test]
fn a_deployment_that_canyon_is_not_done_with_stays() {
    let due = Deployment { due_at: Some(END.parse().unwrap()), ..ended("succeeded") };
    let mut unread = attempt("failed", Some("lost"));
    unread["salvage"] = json!("pending");
    let mut impossible = unread.clone();
    impossible["salvage"] = json!("impossible");
    let mut unproved = attempt("cancelled", None);
    unproved["stop"] = json!({ "reason": "cancel", "asked_at": "2026-03-02T00:00:00Z" });
    let mut proved = unproved.clone();
    proved["job_gone_at"] = json!(END);
    let of = |deployment| expiry(days(Some(1), Some(1)), &deployment, Some(&later_success()));
    assert_eq!(of(due), Expiry::Nothing, "its end is not published");
    assert_eq!(of(with_attempt(unread)), Expiry::Nothing, "what its job left is unread");
    assert_eq!(of(with_attempt(impossible)), Expiry::Deployment { days: 1 });
    assert_eq!(of(with_attempt(unproved)), Expiry::Nothing, "its job may live");
    assert_eq!(of(with_attempt(proved)), Expiry::Deployment { days: 1 });
}

proptest! {
    #[test]
    fn no_retention_removes_what_has_not_ended(
        status in prop::sample::select(vec!["queued", "launching", "running", "cancelling"]),
        deployments in prop::option::of(1..4_000_u32),
        logs in prop::option::of(1..4_000_u32),
        has_end in any::<bool>(),
    ) {
        let deployment = Deployment {
            completed_at: has_end.then(|| END.parse().unwrap()),
            ..ended(status)
        };
        prop_assert_eq!(expiry(days(deployments, logs), &deployment, None), Expiry::Nothing);
    }
}
