use super::*;
use crate::environment_end::AfterEnd;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

const ID: &str = "00000000-0000-7000-8000-000000000001";

fn id(number: u128) -> DeploymentId {
    DeploymentId(Uuid::from_u128(number))
}

fn environment() -> Environment {
    let value = json!({
        "id": "dev", "uuid": ID, "project_id": "shop", "project_uuid": ID,
        "env_type_id": "development", "display_name": "Development", "status": "active",
        "runner_id": "laptop", "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

/// A deployment that ended `number` seconds after the minute.
fn ended(number: u128, mode: &str, status: &str, phase: &str) -> Deployment {
    let attempt = json!({
        "number": 1, "fence": 1, "launched_at": "2026-01-01T00:00:00Z",
        "limits": { "start": 300, "run": 3_600, "stop": 30 }, "claim_hash": "h", "phase": phase,
    });
    let value = json!({
        "id": Uuid::from_u128(number), "project": "shop", "env": "dev", "env_uuid": ID,
        "runner": "laptop", "mode": mode, "plan_only": mode == "drift", "status": status,
        "created_at": "2026-01-01T00:00:00Z", "created_by": ID, "attempts": [attempt],
        "completed_at": format!("2026-01-01T00:00:{number:02}Z"),
        "message": "", "kept": Value::Object(serde_json::Map::new()), "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

fn found(addresses: Option<&str>) -> DriftFinding {
    let num_drifted = u32::from(addresses.is_some());
    let addresses = addresses.map(str::to_owned);
    DriftFinding { num_resources: 3, num_drifted, addresses, ..DriftFinding::default() }
}

/// Ends `deployment`, which is a check that began before or has had the turn.
fn end(environment: &mut Environment, deployment: &Deployment) -> Option<DriftNews> {
    if deployment.mode == Mode::Drift {
        environment.begin_check(deployment.id);
    }
    let AfterEnd::Stay(after, _) = environment.after_end(deployment) else { panic!("it stays") };
    let news = after.drift_news(environment);
    *environment = *after;
    news
}

fn status(environment: &Environment) -> DriftStatus {
    environment.drift.as_ref().map_or(DriftStatus::Unknown, |drift| drift.status)
}

#[test]
fn each_change_of_what_differs_is_news_once_and_a_deployment_ends_the_drift() {
    use DriftNews::{Detected, Resolved};
    use DriftStatus::{Drifted, Failed, InSync, Unknown};
    let mut environment = environment();
    for (number, mode, ends, phase, finds, after, news) in [
        // Before the first check nothing is recorded.
        (1, "deploy", "succeeded", "apply", None, Unknown, None),
        (2, "drift", "succeeded", "plan", Some(found(None)), InSync, None),
        (3, "drift", "succeeded", "plan", Some(found(Some("a"))), Drifted, Some(Detected)),
        (4, "drift", "succeeded", "plan", Some(found(Some("a"))), Drifted, None),
        (5, "drift", "succeeded", "plan", Some(found(Some("b"))), Drifted, Some(Detected)),
        (6, "drift", "failed", "plan", None, Failed, None),
        (7, "drift", "cancelled", "plan", None, Failed, None),
        (8, "drift", "succeeded", "plan", Some(found(Some("b"))), Drifted, None),
        (9, "deploy", "failed", "plan", None, Drifted, None),
        (10, "deploy", "failed", "apply", None, Unknown, None),
        (11, "drift", "succeeded", "plan", Some(found(Some("b"))), Drifted, None),
        (12, "drift", "succeeded", "plan", Some(found(None)), InSync, Some(Resolved)),
        (13, "drift", "succeeded", "plan", Some(found(Some("b"))), Drifted, Some(Detected)),
        (14, "rollback", "succeeded", "apply", None, InSync, Some(Resolved)),
        (15, "destroy", "succeeded", "apply", None, Unknown, None),
    ] {
        let mut deployment = ended(number, mode, ends, phase);
        deployment.drift = finds.map(Box::new);
        assert_eq!(end(&mut environment, &deployment), news, "news of {number}");
        assert_eq!(status(&environment), after, "after {number}");
    }
    let drift = environment.drift.unwrap();
    assert_eq!(
        (drift.check, drift.checking),
        (Some(id(13)), None),
        "the last that found something"
    );
}

#[test]
fn a_partial_deployment_and_one_of_a_resource_do_not_show_that_nothing_differs() {
    let drifted = || {
        let mut environment = environment();
        let mut check = ended(1, "drift", "succeeded", "plan");
        check.drift = Some(Box::new(found(Some("a"))));
        end(&mut environment, &check);
        environment
    };
    let deploy = ended(2, "deploy", "succeeded", "apply");
    let partial = Deployment { partial: true, ..deploy.clone() };
    let resource = Some(Box::new("s3#photos".parse().unwrap()));
    let of_resource = Deployment { resource, ..deploy };
    for (deployment, after) in
        [(partial, DriftStatus::Unknown), (of_resource, DriftStatus::Drifted)]
    {
        let mut environment = drifted();
        end(&mut environment, &deployment);
        assert_eq!(status(&environment), after);
    }
}

#[test]
fn a_check_begins_beside_an_empty_queue_and_gives_way_to_a_deployment() {
    let mut environment = environment();
    assert_eq!(environment.may_check(None), Ok(()));
    environment.begin_check(id(1));
    assert_eq!(environment.may_check(None), Err(NoCheck::Checking(id(1))));
    assert_eq!(environment.may_check(Some(id(1))), Ok(()));
    environment.queue.join(id(2)).unwrap();
    assert_eq!(environment.may_check(Some(id(1))), Err(NoCheck::Busy(id(2))));
    assert_eq!(environment.overtake_check(), Some(id(1)));
    assert_eq!(environment.overtake_check(), None);
    // Its result comes nevertheless.
    let mut late = ended(1, "drift", "succeeded", "plan");
    late.drift = Some(Box::new(found(Some("a"))));
    let AfterEnd::Stay(after, next) = environment.after_end(&late) else { panic!("it stays") };
    assert_eq!((status(&after), next), (DriftStatus::Unknown, None));
    assert_eq!(after.queue.head(), Some(id(2)), "it was never in the queue");
}

#[test]
fn what_a_check_leaves_says_nothing_of_the_module() {
    let mut environment = environment();
    end(&mut environment, &ended(1, "deploy", "succeeded", "apply"));
    let module = environment.module.clone();
    let mut check = ended(2, "drift", "succeeded", "plan");
    check.drift = Some(Box::new(found(None)));
    let state = json!({ "lineage": "l", "serial": 9, "resources": 0 });
    check.state = Some(serde_json::from_value(state).unwrap());
    end(&mut environment, &check);
    assert_eq!(environment.module, module, "a deployment may have changed it meanwhile");
}

#[test]
fn drift_is_undone_twice_within_24_hours_and_again_after_that() {
    let mut record = DriftRecord::default();
    let at = |hours: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
    for (hours, may) in [(0, true), (5, true), (6, false), (23, false), (24, true), (25, false)] {
        assert_eq!(record.begin_reconciliation(at(hours)), may, "after {hours} h");
    }
    assert_eq!(record.suspended_until(), Some(at(29)), "24 h after the older of the last two");
}
