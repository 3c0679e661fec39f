use super::*;
use crate::approval::{ApprovalNeed, ApprovalRule};
use crate::attempt::{Limits, Outcome, SecretHash};
use crate::deadline::{Step, next_step};
use crate::failure::{Failure, FailureClass, Phase};
use crate::ids::PrincipalId;
use crate::kept_plan::{KeptPlan, PlanSummary};
use crate::role::Role;
use crate::runner::{Timeouts, timeouts::TimeoutSettings};
use serde_json::json;
use uuid::Uuid;

const AUTHOR: u128 = 1;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn digest(of: &str) -> Digest {
    of.repeat(32).parse().unwrap()
}

fn timeouts() -> Timeouts {
    Timeouts::from(&TimeoutSettings::default())
}

fn plan(of: &str) -> KeptPlan {
    let summary = PlanSummary { add: 1, ..PlanSummary::default() };
    KeptPlan { attempt: 1, digest: digest(of), parts: 1, pages: 1, sealed: false, summary }
}

/// A deployment that needs approval by a rule, before its first attempt.
fn queued(rule: &ApprovalRule) -> Deployment {
    let id = Uuid::from_u128(9);
    let mut deployment: Deployment = serde_json::from_value(json!({
        "id": id, "project": "shop", "env": "dev", "env_uuid": id, "runner": "laptop", "mode": "deploy",
        "status": "queued", "created_at": at(0), "created_by": Uuid::from_u128(AUTHOR), "version": 1,
        "due_at": at(0),
    }))
    .unwrap();
    deployment.approval = Approval::by_rules(&[rule]).map(Box::new);
    deployment
}

/// Launches and claims the next attempt.
fn run(deployment: &mut Deployment, now: Timestamp) -> u32 {
    let number = u32::try_from(deployment.attempts.len()).unwrap() + 1;
    let code = SecretHash(format!("code-{number}"));
    let limits = Limits::new(timeouts(), deployment.counts_from());
    lifecycle::launch(deployment, u64::from(number), code.clone(), limits, now).unwrap();
    let token = SecretHash("token".to_owned());
    lifecycle::claim(deployment, number, &code, "one", token, (0, 0), now).unwrap();
    number
}

/// One that has planned and waits.
fn waiting(rule: &ApprovalRule) -> Deployment {
    let mut deployment = queued(rule);
    let number = run(&mut deployment, at(1));
    deployment.plan = Some(Box::new(plan("ab")));
    lifecycle::end(&mut deployment, number, Outcome::Succeeded, at(2)).unwrap();
    assert!(deployment.awaits_approval(), "{deployment:?}");
    deployment
}

fn by(person: u128) -> GivenReview<'static> {
    let id = PrincipalId(Uuid::from_u128(person));
    let reviewer =
        Reviewer { id, name: None, role: Role::Deployer, is_machine: false, groups: None };
    GivenReview { reviewer, comment: None, at: at(10) }
}

fn rule(count: u8) -> ApprovalRule {
    ApprovalRule { count, ..ApprovalRule::of(ApprovalNeed::Changes) }
}

#[test]
fn nothing_runs_while_a_plan_waits_and_the_last_approval_applies_it() {
    let mut deployment = waiting(&rule(2));
    assert_eq!(deployment.status, Status::Running);
    let step = |of: &Deployment, second| next_step(of, &timeouts(), at(0), at(second));
    assert_eq!(step(&deployment, 3), Step::Wait(at(2 + 86_400)));
    assert_eq!(approve(&mut deployment, &digest("ab"), &by(2)), Ok(false));
    assert!(matches!(step(&deployment, 11), Step::Wait(_)));
    assert_eq!(approve(&mut deployment, &digest("ab"), &by(3)), Ok(true));
    assert_eq!(step(&deployment, 11), Step::Launch);
    run(&mut deployment, at(12));
    assert_eq!(deployment.plan, Some(Box::new(plan("ab"))), "what is approved is applied");
    assert!(!deployment.plans_for_review());
    let number = run_to_apply(&mut deployment);
    lifecycle::end(&mut deployment, number, Outcome::Succeeded, at(14)).unwrap();
    assert_eq!(deployment.status, Status::Succeeded);
}

fn run_to_apply(deployment: &mut Deployment) -> u32 {
    let number = deployment.open_attempt().unwrap().number;
    lifecycle::report(deployment, number, Phase::Apply, at(13)).unwrap();
    number
}

#[test]
fn a_person_waits_as_long_as_the_rule_says_and_not_as_the_runner_does() {
    let mut limited = timeouts();
    limited.total = Some(jiff::SignedDuration::from_secs(60));
    let mut deployment = waiting(&rule(1));
    let step = |of: &Deployment, second| next_step(of, &limited, at(0), at(second));
    assert!(matches!(step(&deployment, 86_401), Step::Wait(_)));
    assert_eq!(
        step(&deployment, 86_402),
        Step::GiveUp("its plan was not approved in time".to_owned())
    );
    assert_eq!(
        approve(&mut deployment.clone(), &digest("ab"), &GivenReview { at: at(86_402), ..by(2) }),
        Err(ReviewRefusal::Expired)
    );
    let late = GivenReview { at: at(80_000), ..by(2) };
    approve(&mut deployment, &digest("ab"), &late).unwrap();
    assert_eq!(step(&deployment, 80_001), Step::Launch, "its time begins with the approval");
    assert!(matches!(step(&deployment, 80_061), Step::End(_)));
}

#[test]
fn each_refused_review_changes_nothing() {
    let comment_required = ApprovalRule { comment_required: true, ..rule(2) };
    let deployment = waiting(&comment_required);
    let said = |person, comment| GivenReview { comment: Some(comment), ..by(person) };
    let viewer = |mut given: GivenReview<'static>| {
        given.reviewer.role = Role::Viewer;
        given
    };
    let long = "x".repeat(301).leak();
    let cases = [
        (digest("cd"), said(2, "good"), ReviewRefusal::OtherPlan(digest("ab"))),
        (digest("ab"), said(AUTHOR, "good"), ReviewRefusal::Author),
        (digest("ab"), by(2), ReviewRefusal::CommentMissing),
        (digest("ab"), said(2, long), ReviewRefusal::FaultyComment),
        (digest("ab"), said(2, "a\u{1b}[2J"), ReviewRefusal::FaultyComment),
        (digest("ab"), said(2, "yes\u{202e}on"), ReviewRefusal::FaultyComment),
        (digest("ab"), said(2, " "), ReviewRefusal::FaultyComment),
        (
            digest("ab"),
            viewer(said(2, "good")),
            ReviewRefusal::NotAnApprover("it wants the role `deployer`".to_owned()),
        ),
    ];
    for (of, given, expected) in cases {
        let mut reviewed = deployment.clone();
        assert_eq!(approve(&mut reviewed, &of, &given), Err(expected));
        assert_eq!(reviewed, deployment);
    }
    let mut once = deployment.clone();
    approve(&mut once, &digest("ab"), &said(2, "good")).unwrap();
    let before = once.clone();
    let again = approve(&mut once, &digest("ab"), &said(2, "good"));
    assert_eq!(again, Err(ReviewRefusal::Repeated(1, 2)));
    assert_eq!(once, before);
    // One that does not wait.
    let mut unplanned = queued(&rule(1));
    let refused = approve(&mut unplanned, &digest("ab"), &by(2));
    assert_eq!(refused, Err(ReviewRefusal::NotAwaited(Status::Queued, false)));
    assert_eq!(
        discard(&mut unplanned, at(3)),
        Err(ReviewRefusal::NotAwaited(Status::Queued, false))
    );
}

#[test]
fn a_rejection_or_a_discard_ends_the_deployment_as_cancelled() {
    let mut rejected = waiting(&rule(2));
    approve(&mut rejected, &digest("ab"), &by(2)).unwrap();
    let given = GivenReview { comment: Some("not today"), ..by(2) };
    reject(&mut rejected, &given).unwrap();
    assert_eq!(
        (rejected.status, rejected.message.as_str()),
        (Status::Cancelled, "its plan was rejected: not today")
    );
    let approval = rejected.approval.unwrap();
    assert_eq!((approval.reviews.len(), approval.given()), (1, 0), "the newest review counts");
    let mut discarded = waiting(&rule(1));
    discard(&mut discarded, at(5)).unwrap();
    assert_eq!(discarded.message, "its plan was discarded");
    assert_eq!(discarded.due_at, None);
    // Also after its time, if the launcher has not ended it yet.
    let mut late = waiting(&rule(1));
    discard(&mut late, at(90_000)).unwrap();
}

#[test]
fn a_plan_whose_state_has_changed_is_made_again_and_needs_approval_again() {
    let mut deployment = waiting(&rule(1));
    approve(&mut deployment, &digest("ab"), &by(2)).unwrap();
    let failure = Failure::new(FailureClass::User, "STALE_PLAN");
    let number = run(&mut deployment, at(12));
    assert_eq!(lifecycle::plan_again(&mut deployment, number, &failure, at(13)), Ok(true));
    assert!(deployment.plans_for_review() && !deployment.awaits_approval());
    assert_eq!(deployment.plan, None);
    let number = run(&mut deployment, at(14));
    deployment.plan = Some(Box::new(plan("cd")));
    lifecycle::end(&mut deployment, number, Outcome::Succeeded, at(15)).unwrap();
    let approval = deployment.approval.as_ref().unwrap();
    assert!(approval.is_awaited() && approval.reviews.is_empty(), "the reviews are void");
    let refused = approve(&mut deployment, &digest("ab"), &by(2));
    assert_eq!(refused, Err(ReviewRefusal::OtherPlan(digest("cd"))));
}

#[test]
fn a_plan_is_not_made_again_without_end_nor_for_a_kept_plan_or_a_cancelled_deployment() {
    let failure = Failure::new(FailureClass::User, "STALE_PLAN");
    let mut deployment = waiting(&rule(1));
    for round in 0.. {
        approve(&mut deployment, &plan("ab").digest, &by(2)).unwrap();
        let number = run(&mut deployment, at(12));
        if !lifecycle::plan_again(&mut deployment, number, &failure, at(13)).unwrap() {
            assert_eq!(round, 5);
            let failed = Outcome::Failed(failure.clone());
            let told = lifecycle::of_stale_plan(&deployment, number, failed.clone());
            assert!(format!("{told:?}").contains("the last of five new plans"), "{told:?}");
            assert_eq!(lifecycle::of_stale_plan(&deployment, number - 2, failed.clone()), failed);
            break;
        }
        let number = run(&mut deployment, at(14));
        deployment.plan = Some(Box::new(plan("ab")));
        lifecycle::end(&mut deployment, number, Outcome::Succeeded, at(15)).unwrap();
    }
    let mut of_kept = waiting(&rule(1));
    approve(&mut of_kept, &digest("ab"), &by(2)).unwrap();
    let number = run(&mut of_kept, at(12));
    of_kept.plan_of = Some(of_kept.id);
    assert_eq!(lifecycle::plan_again(&mut of_kept, number, &failure, at(13)), Ok(false));
    let mut cancelled = waiting(&rule(1));
    approve(&mut cancelled, &digest("ab"), &by(2)).unwrap();
    let number = run(&mut cancelled, at(12));
    lifecycle::cancel(&mut cancelled, PrincipalId(Uuid::from_u128(2)), at(12));
    assert_eq!(lifecycle::plan_again(&mut cancelled, number, &failure, at(13)), Ok(false));
}

#[test]
fn a_plan_without_changes_or_one_that_was_cancelled_waits_for_nobody() {
    let mut unchanged = queued(&rule(1));
    let number = run(&mut unchanged, at(1));
    lifecycle::end(&mut unchanged, number, Outcome::Succeeded, at(2)).unwrap();
    assert_eq!(unchanged.status, Status::Succeeded);
    let mut cancelled = queued(&rule(1));
    let number = run(&mut cancelled, at(1));
    cancelled.plan = Some(Box::new(plan("ab")));
    lifecycle::cancel(&mut cancelled, PrincipalId(Uuid::from_u128(2)), at(2));
    lifecycle::end(&mut cancelled, number, Outcome::Succeeded, at(3)).unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    let mut waiting = waiting(&rule(1));
    lifecycle::cancel(&mut waiting, PrincipalId(Uuid::from_u128(2)), at(4));
    assert_eq!(waiting.status, Status::Cancelled);
}

#[test]
fn whether_a_person_may_still_approve_is_what_an_approval_would_answer() {
    let mut deployment = waiting(&rule(2));
    approve(&mut deployment, &digest("ab"), &by(2)).unwrap();
    let viewer = |mut given: GivenReview<'static>| {
        given.reviewer.role = Role::Viewer;
        given
    };
    let cases = [
        ("another", by(3), true),
        ("the author", by(AUTHOR), false),
        ("who has approved", by(2), false),
        ("a viewer", viewer(by(3)), false),
        ("too late", GivenReview { at: at(86_402), ..by(3) }, false),
    ];
    for (who, given, expected) in cases {
        assert_eq!(may_approve(&deployment, &given.reviewer, given.at), Some(expected), "{who}");
        let approved = approve(&mut deployment.clone(), &digest("ab"), &given);
        assert_eq!(approved.is_ok(), expected, "{who}: {approved:?}");
    }
    assert_eq!(may_approve(&queued(&rule(1)), &by(3).reviewer, at(10)), None);
    discard(&mut deployment, at(11)).unwrap();
    assert_eq!(may_approve(&deployment, &by(3).reviewer, at(12)), None);
}

#[test]
fn who_is_no_approver_is_told_what_each_rule_wants() {
    let of_type = ApprovalRule {
        approvers: Approvers {
            groups: vec!["okta/leads".parse().unwrap()],
            subjects: vec!["ada".to_owned()],
            ..Approvers::default()
        },
        ..rule(1)
    };
    let own = ApprovalRule {
        approvers: Approvers { roles: vec![Role::Admin], ..Approvers::default() },
        ..rule(1)
    };
    let mut deployment = waiting(&of_type);
    deployment.approval.as_mut().unwrap().approvers.push(own.approvers);
    let refused = approve(&mut deployment, &digest("ab"), &by(2)).unwrap_err().to_string();
    let expected = "you are not an approver of this environment: it wants the group `okta/leads` or `ada`, and the role `admin`";
    assert_eq!(refused, expected);
}
