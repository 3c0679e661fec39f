use super::*;
use crate::approval::{Approval, ApprovalNeed, ApprovalRule, Reviewer};
use crate::deadline::{Step, next_step};
use crate::ids::PrincipalId;
use crate::kept_plan::{KeptPlan, PlanSummary};
use crate::module_source::Digest;
use crate::plan_check::PlanCheckRule;
use crate::review::{self, GivenReview};
use crate::role::Role;
use crate::runner::{Timeouts, timeouts::TimeoutSettings};
use serde_json::json;
use uuid::Uuid;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn id(text: &str) -> PlanCheckId {
    text.parse().unwrap()
}

fn digest() -> Digest {
    "ab".repeat(32).parse().unwrap()
}

/// A deployment whose plan waits since second 0 for `count` people and these checks: `!` marks an advisory one. Each may take 60 s.
fn waiting(count: u8, checks: &[&str]) -> Deployment {
    let checks = checks.iter().map(|text| PlanCheckRule {
        id: id(text.trim_start_matches('!')),
        url: "https://checks.example.com".to_owned(),
        mandatory: !text.starts_with('!'),
        timeout_seconds: 60,
    });
    let rule =
        ApprovalRule { count, checks: checks.collect(), ..ApprovalRule::of(ApprovalNeed::Changes) };
    let uuid = Uuid::from_u128(9);
    let mut deployment: Deployment = serde_json::from_value(json!({
        "id": uuid, "project": "shop", "env": "dev", "env_uuid": uuid, "runner": "laptop", "mode": "deploy",
        "status": "running", "created_at": at(-10), "created_by": Uuid::from_u128(1), "version": 1,
        "due_at": at(0),
    }))
    .unwrap();
    let mut approval = Approval::by_rules(&[&rule]).unwrap();
    approval.ask(at(0));
    deployment.due_at = approval.due_at();
    deployment.approval = Some(Box::new(approval));
    let summary = PlanSummary { add: 1, ..PlanSummary::default() };
    let plan =
        KeptPlan { attempt: 1, digest: digest(), parts: 1, pages: 1, sealed: false, summary };
    deployment.plan = Some(Box::new(plan));
    deployment
}

fn said(status: PlanCheckStatus) -> PlanCheckAnswer {
    PlanCheckAnswer { status, message: Some("2 findings".to_owned()), link: None }
}

fn status_of(deployment: &Deployment, check: &str) -> PlanCheckStatus {
    let checks = &deployment.approval.as_ref().unwrap().checks;
    checks.iter().find(|found| found.rule.id == id(check)).unwrap().status
}

/// What happens to a deployment, one event a second.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Another person approves.
    Approve,
    Pass(&'static str),
    Fail(&'static str),
    Run(&'static str),
    /// A minute passes, and the launcher takes the step that is due.
    Late,
}
use Event::{Approve, Fail, Late, Pass, Run};

fn happen(deployment: &mut Deployment, events: &[Event]) {
    let mut now = at(1);
    for (person, event) in (2..).zip(events) {
        let mut by_service = |check, status| {
            answer(deployment, 1, &id(check), &said(status), now).unwrap();
        };
        match *event {
            Approve => {
                let reviewer = Reviewer {
                    id: PrincipalId(Uuid::from_u128(person)),
                    name: None,
                    role: Role::Deployer,
                    is_machine: false,
                    groups: None,
                };
                let given = GivenReview { reviewer, comment: None, at: now };
                review::approve(deployment, &digest(), &given).unwrap();
            }
            Pass(check) => by_service(check, PlanCheckStatus::Passed),
            Fail(check) => by_service(check, PlanCheckStatus::Failed),
            Run(check) => by_service(check, PlanCheckStatus::Running),
            Late => {
                now += std::time::Duration::from_mins(1);
                let timeouts = Timeouts::from(&TimeoutSettings::default());
                assert_eq!(next_step(deployment, &timeouts, at(0), now), Step::ExpireChecks);
                expire(deployment, now);
            }
        }
        now += std::time::Duration::from_secs(1);
        let is_at_its_end = deployment.status.is_terminal();
        assert_eq!(deployment.due_at.is_none(), is_at_its_end, "a wait has a deadline");
    }
}

#[test]
fn what_people_and_checks_lead_to_is_a_table() {
    let (awaits, applies) = (Status::Running, Status::Launching);
    let ends = Status::Cancelled;
    // people needed, checks, what happens, what becomes of the deployment
    let table: &[(u8, &[&str], &[Event], Status)] = &[
        (1, &["aa"], &[], awaits),
        (1, &["aa"], &[Approve], awaits),
        (1, &["aa"], &[Pass("aa")], awaits),
        (1, &["aa"], &[Approve, Pass("aa")], applies),
        (1, &["aa"], &[Pass("aa"), Approve], applies),
        (1, &["aa"], &[Approve, Run("aa")], awaits),
        (1, &["aa"], &[Approve, Run("aa"), Pass("aa")], applies),
        (1, &["aa"], &[Fail("aa")], ends),
        (1, &["aa"], &[Approve, Fail("aa")], ends),
        (1, &["aa"], &[Late], ends),
        (1, &["aa"], &[Run("aa"), Late], ends),
        (1, &["!aa"], &[Approve], applies),
        (1, &["!aa"], &[Fail("aa")], awaits),
        (1, &["!aa"], &[Fail("aa"), Approve], applies),
        (1, &["!aa"], &[Late], awaits),
        (1, &["!aa"], &[Late, Approve], applies),
        (2, &["aa", "!bb"], &[Approve, Pass("aa")], awaits),
        (2, &["aa", "!bb"], &[Approve, Pass("aa"), Approve], applies),
        (0, &["aa"], &[Pass("aa")], applies),
        (0, &["aa"], &[Approve], awaits),
        (0, &["aa", "bb"], &[Pass("bb")], awaits),
        (0, &["aa", "bb"], &[Pass("bb"), Pass("aa")], applies),
        (0, &["aa", "bb"], &[Pass("bb"), Late], ends),
        (0, &["aa", "!bb"], &[Fail("bb"), Pass("aa")], applies),
        (0, &["aa"], &[Late], ends),
    ];
    for (count, checks, events, expected) in table {
        let mut deployment = waiting(*count, checks);
        happen(&mut deployment, events);
        assert_eq!(deployment.status, *expected, "{count} {checks:?} {events:?}");
    }
}

#[test]
fn a_deployment_that_a_check_ends_names_the_check() {
    let mut deployment = waiting(1, &["security"]);
    happen(&mut deployment, &[Fail("security")]);
    let expected = "the check `security` of its plan has failed: 2 findings";
    assert_eq!(deployment.message, expected);
}

#[test]
fn a_final_answer_stays_and_the_same_answer_again_changes_nothing() {
    let (passed, failed) = (said(PlanCheckStatus::Passed), said(PlanCheckStatus::Failed));
    let mut deployment = waiting(1, &["aa", "!bb"]);
    let mut give = |check: &str, given: &PlanCheckAnswer| {
        let before = deployment.clone();
        let answered = answer(&mut deployment, 1, &id(check), given, at(5));
        assert!(answered == Ok(true) || before == deployment, "a refusal changes nothing");
        answered
    };
    assert_eq!(give("aa", &passed), Ok(true));
    assert_eq!(give("aa", &passed), Ok(false));
    let is_final = Err(AnswerRefusal::Final(PlanCheckStatus::Passed));
    assert_eq!(give("aa", &failed), is_final);
    assert_eq!(give("aa", &said(PlanCheckStatus::Running)), is_final);
    assert_eq!(give("aa", &PlanCheckAnswer { message: None, ..passed.clone() }), is_final);
    assert_eq!(give("cc", &passed), Err(AnswerRefusal::UnknownCheck(id("cc"))));
    // Also after the end, and no other answer then.
    happen(&mut deployment, &[Approve]);
    assert_eq!(deployment.status, Status::Launching);
    let mut after =
        |check: &str, given: &PlanCheckAnswer| answer(&mut deployment, 1, &id(check), given, at(9));
    assert_eq!(after("aa", &passed), Ok(false));
    assert_eq!(after("bb", &passed), Err(AnswerRefusal::NotAwaited(Status::Launching, true)));
}

#[test]
fn an_answer_that_is_late_or_of_another_plan_or_hides_something_is_refused() {
    let mut deployment = waiting(0, &["aa"]);
    let passed = said(PlanCheckStatus::Passed);
    let late = answer(&mut deployment, 1, &id("aa"), &passed, at(60));
    assert_eq!(late, Err(AnswerRefusal::Late));
    let other = answer(&mut deployment, 2, &id("aa"), &passed, at(5));
    assert_eq!(other, Err(AnswerRefusal::OtherPlan));
    let long = "x".repeat(MAX_MESSAGE + 1);
    for text in ["", " ", "a\u{1b}[2J", "yes\u{202e}on", &long] {
        let given = PlanCheckAnswer { message: Some(text.to_owned()), ..passed.clone() };
        let refused = answer(&mut deployment, 1, &id("aa"), &given, at(5));
        assert_eq!(refused, Err(AnswerRefusal::FaultyMessage), "{text:?}");
    }
    let given = PlanCheckAnswer { link: Some("http://a.b".to_owned()), ..passed };
    let refused = answer(&mut deployment, 1, &id("aa"), &given, at(5));
    assert_eq!(refused, Err(AnswerRefusal::FaultyLink));
    assert_eq!(status_of(&deployment, "aa"), PlanCheckStatus::Pending);
}

#[test]
fn the_launcher_wakes_for_requests_then_for_answers_and_last_for_people() {
    let timeouts = Timeouts::from(&TimeoutSettings::default());
    let step = |of: &Deployment, second| next_step(of, &timeouts, at(0), at(second));
    let mut deployment = waiting(1, &["aa", "!bb"]);
    assert_eq!(step(&deployment, 0), Step::RequestChecks);
    let sent = [(id("aa"), Ok(())), (id("bb"), Err("it answered 503".to_owned()))];
    assert!(!record_requests(&mut deployment, 2, &sent, at(1)), "of another plan");
    assert!(record_requests(&mut deployment, 1, &sent, at(1)));
    assert_eq!((step(&deployment, 1), deployment.due_at), (Step::Wait(at(3)), Some(at(3))));
    assert_eq!(step(&deployment, 3), Step::RequestChecks);
    assert!(record_requests(&mut deployment, 1, &[(id("bb"), Ok(()))], at(3)));
    assert_eq!(step(&deployment, 3), Step::Wait(at(60)));
    happen(&mut deployment, &[Pass("aa"), Pass("bb")]);
    assert_eq!(step(&deployment, 61), Step::Wait(at(86_400)));
    assert!(!record_requests(&mut deployment, 1, &sent, at(61)), "a service that has answered");
}

#[test]
fn another_plan_is_checked_again() {
    let mut deployment = waiting(0, &["aa"]);
    happen(&mut deployment, &[Pass("aa")]);
    let approval = deployment.approval.as_mut().unwrap();
    approval.withdraw();
    assert_eq!(approval.checks[0].status, PlanCheckStatus::Pending);
    assert_eq!(approval.due_at(), None);
    approval.ask(at(100));
    assert_eq!(approval.checks[0].deadline, Some(at(160)));
}
