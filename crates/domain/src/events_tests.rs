use super::*;
use crate::approval::Approval;
use crate::attempt::{Limits, SecretHash};
use crate::drift::DriftFinding;
use crate::failure::FailureClass;
use crate::ids::EnvUuid;
use crate::kept_plan::KeptPlan;
use crate::lifecycle::{claim, end, go_on, launch, plan_again, suspect};
use uuid::Uuid;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn queued() -> Deployment {
    serde_json::from_value(serde_json::json!({
        "id": Uuid::from_u128(7), "project": "shop", "env": "dev",
        "env_uuid": EnvUuid(Uuid::from_u128(1)), "runner": "laptop", "mode": "deploy",
        "created_at": at(0), "created_by": Uuid::from_u128(9), "status": "queued",
        "due_at": at(0), "version": 1,
    }))
    .unwrap()
}

fn names(events: &[DeploymentEvent]) -> Vec<String> {
    events.iter().map(DeploymentEvent::detail_type).collect()
}

/// Takes a deployment through a second attempt to its end, and collects the event of each write.
#[test]
fn the_events_of_all_writes_are_the_history_and_each_event_has_its_own_id() {
    let org: OrgId = "acme".parse().unwrap();
    let (code, token) = (SecretHash("code".into()), SecretHash("token".into()));
    let limits = Limits { start: 300, run: 600, stop: 30, until: None };
    let lost = Outcome::Failed(Failure::new(FailureClass::Lost, "gone"));
    let mut deployment = queued();
    let mut published = DeploymentEvent::of_write(&org, &deployment);
    for number in 1..=2 {
        let start = i64::from(number) * 100;
        launch(&mut deployment, 1, code.clone(), limits, at(start)).unwrap();
        deployment.version += 1;
        published.extend(DeploymentEvent::of_write(&org, &deployment));
        let now = at(start + 1);
        claim(&mut deployment, number, &code, "me", token.clone(), (0, 0), now).unwrap();
        published.extend(DeploymentEvent::of_write(&org, &deployment));
        assert!(suspect(&mut deployment, number, now));
        published.extend(DeploymentEvent::of_write(&org, &deployment));
        let outcome = if number == 1 { lost.clone() } else { Outcome::Succeeded };
        end(&mut deployment, number, outcome, at(start + 2)).unwrap();
        published.extend(DeploymentEvent::of_write(&org, &deployment));
    }
    let expected = ["queued", "running", "running", "succeeded"];
    assert_eq!(names(&published), expected.map(|name| format!("deployment.{name}")));
    assert_eq!(published, DeploymentEvent::history(&org, &deployment));
    let ids: std::collections::HashSet<_> = published.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), published.len());
    assert!(published.iter().all(|event| event.failure.is_none()));
}

#[test]
fn the_event_of_a_failure_has_its_class() {
    let org: OrgId = "acme".parse().unwrap();
    let mut deployment = queued();
    let failure = Failure::new(FailureClass::User, "no such variable");
    launch(
        &mut deployment,
        1,
        SecretHash("c".into()),
        Limits { start: 300, run: 600, stop: 30, until: None },
        at(1),
    )
    .unwrap();
    end(&mut deployment, 1, Outcome::Failed(failure.clone()), at(2)).unwrap();
    let event = DeploymentEvent::of_write(&org, &deployment).pop().unwrap();
    assert_eq!(event.detail_type(), "deployment.failed");
    assert_eq!((event.failure, event.at, event.attempt), (Some(failure), at(2), Some(1)));
    // The queue writes a queued deployment again when its turn changes; that publishes nothing.
    let mut again = queued();
    again.version = 2;
    assert_eq!(DeploymentEvent::of_write(&org, &again), []);
}

const LIMITS: Limits = Limits { start: 300, run: 600, stop: 30, until: None };

fn acme() -> OrgId {
    "acme".parse().unwrap()
}

/// The next attempt of a deployment begins, and its runner claims it.
fn begin(of: &mut Deployment, second: i64) {
    let (code, token) = (SecretHash("code".into()), SecretHash("token".into()));
    launch(of, 1, code.clone(), LIMITS, at(second)).unwrap();
    let number = u32::try_from(of.attempts.len()).unwrap();
    claim(of, number, &code, "me", token, (0, 0), at(second + 1)).unwrap();
    of.version += 1;
}

fn ids(events: &[DeploymentEvent]) -> Vec<String> {
    let what = |event: &DeploymentEvent| event.id.split_once('.').unwrap().1.to_owned();
    events.iter().map(what).collect()
}

fn plan(attempt: u32) -> KeptPlan {
    let plan = serde_json::json!({
        "attempt": attempt, "digest": "ab".repeat(32), "parts": 1, "pages": 0, "summary": {},
    });
    serde_json::from_value(plan).unwrap()
}

fn approval() -> Option<Box<Approval>> {
    let rule = serde_json::json!({
        "required": "always", "count": 2, "forbid_author": true, "expires_seconds": 600, "comment_required": false,
    });
    let rule: crate::approval::ApprovalRule = serde_json::from_value(rule).unwrap();
    Approval::by_rules(&[&rule]).map(Box::new)
}

#[test]
fn each_plan_that_waits_for_approval_has_one_event() {
    let org = acme();
    let mut deployment = Deployment { approval: approval(), ..queued() };
    let mut events = Vec::new();
    for (attempt, second) in [(1, 100), (3, 300)] {
        begin(&mut deployment, second);
        deployment.plan = Some(Box::new(plan(attempt)));
        end(&mut deployment, attempt, Outcome::Succeeded, at(second + 2)).unwrap();
        assert!(deployment.awaits_approval());
        let [event] = DeploymentEvent::of_write(&org, &deployment).try_into().unwrap();
        assert_eq!(event.detail_type(), "deployment.awaiting-approval");
        assert_eq!((event.status, event.attempt), (Status::Running, Some(attempt)));
        let of_event = event.approval.clone().unwrap();
        assert_eq!((of_event.needed, of_event.plan_digest), (2, "ab".repeat(32)));
        // A review is a write too. It delivers the same event again, and its consumers see the same id.
        deployment.version += 1;
        assert_eq!(DeploymentEvent::of_write(&org, &deployment), std::slice::from_ref(&event));
        events.push(event);
        let granted = deployment.approval.as_mut().unwrap();
        granted.granted_at = Some(at(second + 3));
        go_on(&mut deployment, at(second + 3));
        assert_eq!(DeploymentEvent::of_write(&org, &deployment), []);
        if attempt == 1 {
            // The state has changed meanwhile: it is planned again.
            begin(&mut deployment, second + 10);
            let stale = Failure::new(FailureClass::User, "STALE_PLAN");
            assert!(plan_again(&mut deployment, 2, &stale, at(second + 12)).unwrap());
            assert_eq!(DeploymentEvent::of_write(&org, &deployment), []);
        }
    }
    assert_eq!(ids(&events), ["awaiting-approval.1", "awaiting-approval.3"]);
    begin(&mut deployment, 400);
    end(&mut deployment, 4, Outcome::Succeeded, at(402)).unwrap();
    let expected = [
        "queued",
        "running.1",
        "running.2",
        "running.3",
        "awaiting-approval.3",
        "running.4",
        "succeeded",
    ];
    assert_eq!(ids(&DeploymentEvent::history(&org, &deployment)), expected);
}

#[test]
fn the_kept_plan_of_another_deployment_waits_from_its_acceptance() {
    let org = acme();
    let mut deployment =
        Deployment { approval: approval(), plan: Some(Box::new(plan(1))), ..queued() };
    deployment.plan_of = Some(deployment.id);
    deployment.approval.as_mut().unwrap().ask(at(0));
    let events = DeploymentEvent::of_write(&org, &deployment);
    assert_eq!(ids(&events), ["queued", "awaiting-approval.1"]);
    assert_eq!((events[1].status, events[1].attempt), (Status::Queued, None));
    assert_eq!(events, DeploymentEvent::history(&org, &deployment));
}

#[test]
fn a_check_has_an_event_only_if_what_differs_has_changed() {
    let org = acme();
    for (news, expected) in [
        (None, vec![]),
        (Some(DriftNews::Detected), vec!["environment.drift-detected"]),
        (Some(DriftNews::Resolved), vec!["environment.drift-resolved"]),
    ] {
        let mut check = Deployment { mode: Mode::Drift, plan_only: true, ..queued() };
        let mut published = DeploymentEvent::of_write(&org, &check);
        begin(&mut check, 100);
        published.extend(DeploymentEvent::of_write(&org, &check));
        let found = DriftFinding { num_resources: 9, num_drifted: 2, news, ..Default::default() };
        check.drift = Some(Box::new(found));
        end(&mut check, 1, Outcome::Succeeded, at(102)).unwrap();
        published.extend(DeploymentEvent::of_write(&org, &check));
        assert_eq!(names(&published), expected);
        assert_eq!(published, DeploymentEvent::history(&org, &check));
        for event in published {
            assert_eq!((event.at, event.attempt), (at(102), Some(1)));
            let drift = event.drift.unwrap();
            assert_eq!((drift.num_resources, drift.num_drifted), (9, 2));
        }
        // Neither has one that failed, or that a deployment overtook.
        let mut failed = Deployment { mode: Mode::Drift, plan_only: true, ..queued() };
        begin(&mut failed, 100);
        let failure = Failure::new(FailureClass::User, "no credentials");
        end(&mut failed, 1, Outcome::Failed(failure), at(102)).unwrap();
        assert_eq!(DeploymentEvent::of_write(&org, &failed), []);
    }
}

#[test]
fn a_deployment_that_ends_the_drift_has_both_events() {
    let org = acme();
    let mut deployment = queued();
    begin(&mut deployment, 100);
    end(&mut deployment, 1, Outcome::Succeeded, at(102)).unwrap();
    let news = Some(DriftNews::Resolved);
    deployment.drift =
        Some(Box::new(DriftFinding { num_resources: 9, news, ..Default::default() }));
    let events = DeploymentEvent::of_write(&org, &deployment);
    assert_eq!(names(&events), ["deployment.succeeded", "environment.drift-resolved"]);
    assert_eq!(ids(&events), ["succeeded", "drift"]);
}
