//! The lifecycle: a random walk over every event, and a launcher against platforms that give no useful answer.

use super::*;
use crate::deadline::{Observation, QUEUE_CHECK, STOP_PROOF_TIMEOUT};
use crate::deadline::{Step, next_step, observed, stopping};
use crate::failure::MAX_ATTEMPTS;
use crate::ids::DeploymentId;
use crate::ids::PrincipalId;
use jiff::SignedDuration;
use proptest::prelude::*;
use uuid::Uuid;

#[path = "next_check_tests.rs"]
mod next_check;
#[path = "total_time_tests.rs"]
mod total_time;
#[path = "waiting_tests.rs"]
mod waiting_tests;

const TIMEOUTS: crate::runner::Timeouts = crate::runner::Timeouts {
    queue: SignedDuration::from_hours(1),
    start: SignedDuration::from_secs(300),
    run: SignedDuration::from_secs(1_800),
    stop: SignedDuration::from_secs(30),
    total: None,
};
const LIMITS: Limits = Limits { start: 300, run: 1_800, stop: 30, until: None };

fn step(of: &Deployment, second: i64) -> Step {
    next_step(of, &TIMEOUTS, Timestamp::MIN, at(second))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn queued() -> Deployment {
    let value = serde_json::json!({
        "id": Uuid::from_u128(7), "project": "shop", "env": "dev", "env_uuid": Uuid::from_u128(1), "runner": "laptop",
        "mode": "deploy", "created_at": at(0), "created_by": user(), "status": "queued", "due_at": at(0), "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

fn user() -> PrincipalId {
    PrincipalId(Uuid::from_u128(9))
}

fn hash(text: &str) -> SecretHash {
    SecretHash(text.to_owned())
}

fn launched() -> Deployment {
    let mut deployment = queued();
    launch(&mut deployment, 1, hash("code"), LIMITS, at(1)).unwrap();
    deployment
}

fn running() -> Deployment {
    let mut deployment = launched();
    claim(&mut deployment, 1, &hash("code"), "me", hash("token"), (0, 0), at(2)).unwrap();
    deployment
}

fn failed(class: FailureClass) -> Outcome {
    Outcome::Failed(Failure::new(class, "because"))
}

#[test]
fn one_runner_wins_the_claim_and_repeating_it_changes_nothing() {
    let (mut deployment, code) = (launched(), hash("code"));
    let wrong = claim(&mut deployment, 1, &hash("guess"), "me", hash("mine"), (0, 0), at(2));
    assert_eq!(wrong, Err(Refused::WrongCode));
    assert_eq!(claim(&mut deployment, 1, &code, "me", hash("mine"), (4, 2), at(2)), Ok(true));
    let second = claim(&mut deployment, 1, &code, "you", hash("yours"), (0, 0), at(2));
    assert_eq!(second, Err(Refused::ClaimedByAnother));
    report(&mut deployment, 1, Phase::Apply, at(40)).unwrap();
    let running = deployment.clone();
    // The network delivers the same claim again while its runner applies.
    for second in [3, 41, 180] {
        let again = claim(&mut deployment, 1, &code, "me", hash("mine"), (9, 9), at(second));
        assert_eq!((again, &deployment), (Ok(false), &running), "at {second}");
    }
    let other_token = claim(&mut deployment, 1, &code, "me", hash("other"), (0, 0), at(41));
    assert_eq!(other_token, Err(Refused::ClaimedByAnother), "the other token would be useless");
    // Much later it is no retry after a lost answer, but a stolen code.
    let late = claim(&mut deployment, 1, &code, "me", hash("mine"), (0, 0), at(900));
    assert_eq!((late, deployment), (Err(Refused::Superseded), running));
}

#[test]
fn a_late_request_of_an_older_attempt_is_refused() {
    let mut deployment = running();
    end(&mut deployment, 1, failed(FailureClass::Evicted), at(5)).unwrap();
    launch(&mut deployment, 2, hash("code2"), LIMITS, at(10)).unwrap();
    assert_eq!(end(&mut deployment, 1, Outcome::Succeeded, at(11)), Err(Refused::Superseded));
    assert_eq!(report(&mut deployment, 1, Phase::Apply, at(11)), Err(Refused::Superseded));
    let old = claim(&mut deployment, 1, &hash("code"), "me", hash("t"), (0, 0), at(11));
    assert_eq!(old, Err(Refused::Superseded));
    assert_eq!(deployment.status, Status::Launching);
}

#[test]
fn the_begin_of_an_apply_is_always_written_and_forbids_a_second_attempt() {
    let mut deployment = running();
    assert_eq!(report(&mut deployment, 1, Phase::Init, at(3)), Ok(false));
    assert_eq!(report(&mut deployment, 1, Phase::Apply, at(3)), Ok(true));
    observed(&mut deployment, Observation::Gone(None), at(4));
    assert_eq!(deployment.status, Status::Failed);
    assert_eq!(deployment.message, "the job vanished during apply without a result");

    let mut deployment = running();
    observed(&mut deployment, Observation::Gone(None), at(4));
    assert_eq!(deployment.status, Status::Launching, "nothing was applied: retry");
}

#[test]
fn a_cancel_ends_at_once_where_nothing_runs_and_after_proof_where_a_job_does() {
    let mut waiting = queued();
    assert_eq!(cancel(&mut waiting, user(), at(1)), CancelAnswer::Cancelled);
    assert_eq!(waiting.status, Status::Cancelled);
    assert_eq!(cancel(&mut waiting, user(), at(2)), CancelAnswer::AlreadyOver);

    let mut deployment = running();
    assert_eq!(cancel(&mut deployment, user(), at(3)), CancelAnswer::Stopping);
    assert_eq!(step(&deployment, 3), Step::Stop);
    assert_eq!(step(&deployment, 33), Step::Kill);
    observed(&mut deployment, Observation::Alive, at(34));
    assert_eq!(deployment.status, Status::Cancelling);
    observed(&mut deployment, Observation::Gone(None), at(35));
    assert_eq!(deployment.status, Status::Cancelled);
}

#[test]
fn a_run_that_ends_before_its_cancel_keeps_its_own_end() {
    let mut deployment = running();
    cancel(&mut deployment, user(), at(3));
    end(&mut deployment, 1, Outcome::Succeeded, at(4)).unwrap();
    assert_eq!(deployment.status, Status::Succeeded);
}

#[test]
fn a_silent_runner_is_checked_and_then_stopped() {
    let deployment = running();
    let cases = [(10, Step::Wait(at(62))), (62, Step::Observe), (302, Step::Stop)];
    for (second, expected) in cases {
        assert_eq!(step(&deployment, second), expected, "at {second}");
    }
}

#[test]
fn a_run_ends_at_its_deadline_even_if_its_runner_reports() {
    let mut deployment = running();
    let mut second = 2;
    while second < 2 + i64::from(LIMITS.run) {
        assert!(deployment.due_at <= Some(at(2) + LIMITS.run()), "due at {:?}", deployment.due_at);
        second += 15;
        report(&mut deployment, 1, Phase::Apply, at(second)).unwrap();
    }
    assert_eq!(step(&deployment, second), Step::Stop);
    stopping(&mut deployment, at(second));
    // The runner only knows that it was stopped.
    end(&mut deployment, 1, Outcome::Cancelled, at(second + 1)).unwrap();
    assert_eq!(deployment.status, Status::Failed);
    assert!(deployment.message.contains("run_seconds"), "{}", deployment.message);
}

#[test]
fn a_runner_that_the_platform_stopped_was_not_cancelled() {
    let mut deployment = running();
    end(&mut deployment, 1, Outcome::Cancelled, at(5)).unwrap();
    assert_eq!(deployment.status, Status::Launching, "evicted before it applied: retry");
    assert!(deployment.message.contains("evicted"), "{}", deployment.message);
}

#[test]
fn silence_during_an_outage_of_canyon_does_not_count_against_a_runner() {
    let deployment = running();
    let back = at(1_000);
    let step = |second| next_step(&deployment, &TIMEOUTS, back, at(second));
    assert_eq!(step(1_000), Step::Wait(at(1_060)));
    assert_eq!(step(1_060), Step::Observe);
    assert_eq!(step(1_300), Step::Stop);
}

#[test]
fn waiting_for_a_turn_has_a_deadline() {
    let deployment = queued();
    assert_eq!(step(&deployment, 3_599), Step::Launch);
    assert!(matches!(step(&deployment, 3_600), Step::End(_)));
}

/// The answers of a platform.
#[derive(Clone, Copy, Debug)]
enum Platform {
    AlwaysAlive,
    AlwaysUnknown,
    LosesJobs,
}

/// Follows the steps as the launcher does, with a job that sends no report once `claimed`.
fn drive(mut deployment: Deployment, platform: Platform, claimed: bool) -> (Deployment, Timestamp) {
    let mut now = at(1);
    for _ in 0..10_000 {
        let before = deployment.status;
        match next_step(&deployment, &TIMEOUTS, Timestamp::MIN, now) {
            Step::Nothing => return (deployment, now),
            Step::Wait(until) => deployment.due_at = Some(until),
            Step::Launch => {
                let fence = deployment.attempts.len() as u64 + 1;
                launch(&mut deployment, fence, hash("code"), LIMITS, now).unwrap();
            }
            Step::Start => {
                let number = u32::try_from(deployment.attempts.len()).unwrap();
                started(&mut deployment, number, "job".into()).unwrap();
                if claimed {
                    claim(&mut deployment, number, &hash("code"), "me", hash("t"), (0, 0), now)
                        .unwrap();
                }
            }
            Step::Observe => observed(&mut deployment, answer(platform), now),
            Step::Stop | Step::Kill => {
                stopping(&mut deployment, now);
                observed(&mut deployment, answer(platform), now);
            }
            Step::End(outcome) => end_without_attempt(&mut deployment, outcome, now),
            Step::GiveUp(reason) => give_up(&mut deployment, reason, now),
            Step::RequestChecks | Step::ExpireChecks => panic!("its plan has no checks"),
        }
        assert!(before == deployment.status || before.may_become(deployment.status));
        now = deployment.due_at.map_or(now, |due| due.max(now + Duration::from_millis(1)));
    }
    panic!("still {:?} at {now}", deployment.status);
}

fn answer(platform: Platform) -> Observation {
    match platform {
        Platform::AlwaysAlive => Observation::Alive,
        Platform::AlwaysUnknown => Observation::Unknown("503".into()),
        Platform::LosesJobs => Observation::Gone(None),
    }
}

#[test]
fn every_deployment_ends_whatever_the_platform_answers() {
    let longest = LIMITS.start() + LIMITS.run() + LIMITS.stop() + STOP_PROOF_TIMEOUT + QUEUE_CHECK;
    for platform in [Platform::AlwaysAlive, Platform::AlwaysUnknown, Platform::LosesJobs] {
        for claimed in [false, true] {
            let (deployment, end) = drive(queued(), platform, claimed);
            assert_eq!(deployment.status, Status::Failed, "{platform:?}, claimed {claimed}");
            assert!(end <= at(0) + longest, "{platform:?}, claimed {claimed}: {end}");

            let mut cancelled = if claimed { running() } else { launched() };
            cancel(&mut cancelled, user(), at(2));
            let (deployment, end) = drive(cancelled, platform, claimed);
            assert_eq!(deployment.status, Status::Cancelled, "{platform:?}, claimed {claimed}");
            assert!(end <= at(2) + LIMITS.stop() + STOP_PROOF_TIMEOUT + Duration::from_secs(5));
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Launch,
    Claim(u32, u8),
    Report(u32, Phase),
    End(u32, Outcome),
    Cancel,
    Observed(Observation),
    Stopping,
    Pass(u16),
}

fn event() -> impl Strategy<Value = Event> {
    let number = 1..4_u32;
    let phase = prop::sample::select(vec![Phase::Fetch, Phase::Init, Phase::Plan, Phase::Apply]);
    let class = prop::sample::select(FailureClass::ALL.to_vec());
    let outcome = prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Cancelled),
        class.prop_map(|class| Outcome::Failed(Failure::new(class, "x"))),
    ];
    let observation = prop_oneof![
        Just(Observation::Alive),
        Just(Observation::Gone(None)),
        Just(Observation::Unknown("?".into())),
    ];
    prop_oneof![
        4 => Just(Event::Launch),
        4 => (number.clone(), 0..3_u8).prop_map(|(n, who)| Event::Claim(n, who)),
        2 => (number.clone(), phase).prop_map(|(n, p)| Event::Report(n, p)),
        2 => (number, outcome).prop_map(|(n, o)| Event::End(n, o)),
        1 => Just(Event::Cancel),
        2 => observation.prop_map(Event::Observed),
        1 => Just(Event::Stopping),
        2 => (0..600_u16).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn no_order_of_events_breaks_a_promise(events in prop::collection::vec(event(), 0..40)) {
        let mut deployment = queued();
        let mut second = 1;
        for event in events {
            let before = deployment.clone();
            let now = at(second);
            match event {
                Event::Launch => {
                    let fence = deployment.attempts.len() as u64 + 1;
                    let _ = launch(&mut deployment, fence, hash("code"), LIMITS, now);
                }
                Event::Claim(n, who) => {
                    let _ = claim(&mut deployment, n, &hash("code"), who.to_string().as_str(), hash("t"), (0, 0), now);
                }
                Event::Report(n, phase) => { let _ = report(&mut deployment, n, phase, now); }
                Event::End(n, outcome) => { let _ = end(&mut deployment, n, outcome, now); }
                Event::Cancel => { cancel(&mut deployment, user(), now); }
                Event::Observed(observation) => observed(&mut deployment, observation, now),
                Event::Stopping => stopping(&mut deployment, now),
                Event::Pass(seconds) => second += i64::from(seconds),
            }
            let (old, new) = (before.status, deployment.status);
            prop_assert!(old == new || old.may_become(new), "{old} -> {new}");
            if old.is_terminal() {
                prop_assert_eq!(&before, &deployment, "a terminal deployment never changes");
            }
            prop_assert_eq!(deployment.due_at.is_none(), new.is_terminal());
            prop_assert_eq!(deployment.completed_at.is_some(), new.is_terminal());
            prop_assert!(deployment.attempts.len() <= MAX_ATTEMPTS as usize);
            let open = deployment.attempts.iter().filter(|a| a.ended.is_none()).count();
            prop_assert!(open <= 1 && !(open == 1 && new.is_terminal()));
            let last = deployment.attempts.len().saturating_sub(1);
            for (index, attempt) in deployment.attempts.iter().enumerate() {
                prop_assert!(attempt.ended.is_some() || index == last);
                let was = before.attempts.get(index).and_then(|a| a.claim.as_ref());
                if let (Some(was), Some(is)) = (was, attempt.claim.as_ref()) {
                    prop_assert_eq!(&was.claimant, &is.claimant, "one runner per attempt");
                }
                if attempt.phase == Phase::Apply && index < last {
                    prop_assert!(false, "an attempt followed one that had begun to apply");
                }
            }
        }
    }
}

#[test]
fn a_hint_that_the_job_is_gone_triggers_one_check() {
    let mut deployment = running();
    let due = deployment.due_at;
    assert!(!suspect(&mut deployment, 2, at(3)), "another attempt's");
    assert_eq!(deployment.due_at, due);
    assert!(suspect(&mut deployment, 1, at(3)));
    assert!(!suspect(&mut deployment, 1, at(4)), "it is known already");
    assert_eq!(deployment.due_at, Some(at(3)));
    assert_eq!(step(&deployment, 3), Step::Observe);
    // The platform was wrong: the job is alive.
    observed(&mut deployment, Observation::Alive, at(3));
    assert!(matches!(step(&deployment, 3), Step::Wait(until) if until > at(3)));
    assert!(suspect(&mut deployment, 1, at(5)));
    observed(&mut deployment, Observation::Gone(None), at(5));
    assert!(deployment.open_attempt().is_none());
    assert!(!suspect(&mut deployment, 1, at(6)), "a late hint about an ended attempt");
    deployment.set_salvage(1, crate::attempt::Salvage::Pending, at(6));
    let due = deployment.due_at;
    assert!(suspect(&mut deployment, 1, at(6)), "Canyon must still read what its job left");
    assert!(!suspect(&mut deployment, 1, at(7)) && deployment.due_at == due);
}
