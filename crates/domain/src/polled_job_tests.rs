use super::*;
use crate::agent::Agent;
use crate::failure::FailureClass;
use serde_json::json;
use std::time::Duration;

fn at(second: u64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + Duration::from_secs(second)
}

fn poller() -> Agent {
    serde_json::from_value(json!({
        "id": "far", "identity": { "by": "key", "public_key": "" },
        "adoption": "adopted", "runner": "far", "created_at": at(0), "sessions": 1, "version": 1,
        "session": {
            "number": 1, "instance": "i", "opened_at": at(0), "last_seen": at(0),
            "serves": ["kubernetes-agent"], "place": "p", "program": "1", "protocol": 1,
            "concurrency": 4, "running": 0,
        },
    }))
    .unwrap()
}

fn job() -> AgentJob {
    serde_json::from_value(json!({
        "deployment": "01890000-0000-7000-8000-000000000001", "attempt": 1, "fence": 1,
        "runner": "01890000-0000-7000-8000-000000000002",
        "order": {
            "org_id": "acme", "runner_id": "far", "kind": "kubernetes-agent", "definition": {},
            "project": "shop", "env": "dev", "launched_at": at(0),
        },
        "manifest": { "Ok": {
            "name": "canyon-1", "namespace": "jobs",
            "job": { "env": [{ "name": "CODE", "value": CLAIM_CODE }, { "value": "(claim code) not" }] },
        } },
        "version": 1,
    }))
    .unwrap()
}

fn handed_out() -> AgentJob {
    let (poller, mut job) = (poller(), job());
    assert!(job.offer(&poller, &[], at(0)));
    job.assign_to_poller(&poller.id, 1, "p", at(0)).unwrap().unwrap().unwrap();
    job
}

#[test]
fn a_job_is_handed_out_once_and_keeps_no_manifest() {
    let mut job = handed_out();
    assert!(job.manifest.is_none() && !job.needs_agent());
    assert_eq!(job.polled.as_ref().unwrap().namespace, "jobs");
    let other = "other".parse().unwrap();
    assert_eq!(job.assign_to_poller(&other, 1, "p", at(1)), Err(JobRefusal::TakenByAnother));
    assert_eq!(job.next_message(at(1)), None, "there is no message about it");
}

#[test]
fn the_claim_code_replaces_its_placeholder_and_nothing_else() {
    let Some(Ok(manifest)) = job().manifest else { panic!() };
    let filled = manifest.with_claim_code("cyc_x");
    assert_eq!(filled["env"][0]["value"], "cyc_x");
    assert_eq!(filled["env"][1]["value"], "(claim code) not");
}

#[test]
fn a_job_without_reports_is_checked_periodically_until_it_is_gone() {
    let mut job = handed_out();
    assert!(!job.request_check(at(29)), "it has only just been handed out");
    assert!(job.request_check(at(30)) && job.needs_agent());
    assert!(!job.request_check(at(31)), "a check is already pending");
    assert_eq!(job.next_message(at(40)), Some(PollMessage::Check));
    assert_eq!((job.next_message(at(41)), job.needs_agent()), (None, false));
    assert!(!job.request_check(at(69)));
    assert!(job.request_check(at(70)));
    let lost = || Failure::new(FailureClass::Lost, "it is not there");
    assert!(job.report_failed(lost(), at(71)));
    assert!(!job.report_failed(lost(), at(72)), "the same report again");
    assert_eq!(job.observation(&[poller()], at(72)), Observation::Gone(Some(lost())));
    assert!(!job.request_check(at(500)));
}

#[test]
fn a_job_that_cannot_be_handed_out_needs_no_poller_and_has_a_reason() {
    let (poller, mut job) = (poller(), job());
    job.manifest = Some(Err("no such thing".to_owned()));
    job.offer(&poller, &[], at(0));
    assert_eq!(
        job.assign_to_poller(&poller.id, 1, "p", at(0)),
        Ok(Some(Err("no such thing".to_owned())))
    );
    let failure = || Failure::new(FailureClass::Config, "no such thing");
    job.record_undeliverable(failure(), at(0));
    for desired in [DesiredState::Run, DesiredState::Stop, DesiredState::Kill, DesiredState::Forget]
    {
        job.raise_desired_state(desired);
        assert!(!job.needs_agent() && !job.request_check(at(500)), "{desired:?}");
        assert_eq!((job.next_message(at(1)), job.applied), (None, DesiredState::Forget));
        assert_eq!(job.observation(&[], at(1)), Observation::Gone(Some(failure())));
    }
}

#[test]
fn each_cancel_is_sent_once_and_before_any_check() {
    let mut job = handed_out();
    job.request_check(at(30));
    for desired in [DesiredState::Stop, DesiredState::Kill, DesiredState::Forget] {
        job.raise_desired_state(desired);
        assert!(job.needs_agent());
        assert_eq!(job.next_message(at(31)), Some(PollMessage::Cancel));
        assert_eq!((job.next_message(at(31)), job.applied), (None, desired));
    }
    assert!(!job.request_check(at(270)), "its pod may still run");
    assert!(!job.is_removed(), "the poller may not have received it");
    assert!(job.report_failed(Failure::new(FailureClass::Lost, "it is not there"), at(271)));
    assert!(job.is_removed());
}

#[test]
fn a_report_that_a_cancelled_job_is_absent_counts_only_after_the_termination_grace() {
    let not_there = || Failure::new(FailureClass::Lost, "it is not there");
    for desired in [DesiredState::Stop, DesiredState::Kill, DesiredState::Forget] {
        let mut job = handed_out();
        job.request_check(at(30));
        assert_eq!(job.next_message(at(30)), Some(PollMessage::Check));
        job.raise_desired_state(desired);
        assert_eq!(job.next_message(at(100)), Some(PollMessage::Cancel));
        assert!(
            !job.report_failed(not_there(), at(101)),
            "the Job is deleted, and its pod still runs"
        );
        assert!(!job.request_check(at(339)) && !job.report_failed(not_there(), at(339)));
        // The check is repeated: the first answer is lost, the second arrives.
        for second in [340, 355] {
            assert!(job.request_check(at(second)) && job.needs_agent(), "{desired:?}");
            assert_eq!(job.next_message(at(second + 1)), Some(PollMessage::Check));
        }
        assert!(job.report_failed(not_there(), at(357)));
        assert!(!job.request_check(at(1_000)), "it is gone");
    }
}

#[test]
fn a_cancel_that_was_not_sent_yet_does_not_discard_a_report_of_absence() {
    let mut job = handed_out();
    job.request_check(at(30));
    job.next_message(at(30));
    job.raise_desired_state(DesiredState::Stop);
    assert!(job.report_failed(Failure::new(FailureClass::Lost, "it is not there"), at(31)));
}
