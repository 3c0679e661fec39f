//! No lock is broken without a proof.

use super::*;
use crate::attempt::{Limits, Outcome, SecretHash, Stop, StopReason};
use crate::claimant::Claimant;
use crate::deployment::{Mode, Status, StoredResults};
use crate::failure::{Failure, FailureClass};
use crate::ids::{EnvUuid, PrincipalId};
use crate::lifecycle;
use jiff::SignedDuration;
use proptest::prelude::*;
use uuid::Uuid;

const LIMITS: Limits = Limits { start: 300, run: 1_800, stop: 30, until: None };
const SKEW: i64 = 120;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn queued(id: u128, environment: u128) -> Deployment {
    Deployment {
        resource: None,
        container: None,
        id: DeploymentId(Uuid::from_u128(id)),
        project: "shop".parse().unwrap(),
        env: "dev".parse().unwrap(),
        env_uuid: EnvUuid(Uuid::from_u128(environment)),
        env_type: None,
        runner: "laptop".parse().unwrap(),
        fallback: None,
        mode: Mode::Deploy,
        plan_only: false,
        rollback_to: None,
        plan_of: None,
        place: None,
        of_removal: false,
        priority: crate::deployment::Priority::Normal,
        agent: None,
        accept_state: false,
        max_deletions: None,
        partial: false,
        reconciles: false,
        supersede: None,
        created_at: at(0),
        created_by: PrincipalId(Uuid::from_u128(9)),
        reads_in: None,
        status: Status::Queued,
        message: String::new(),
        hold: None,
        due_at: Some(at(0)),
        attempts: Vec::new(),
        cancel: None,
        counts: None,
        state: None,
        refused_deletions: None,
        kept: StoredResults::default(),
        approval: None,
        plan: None,
        drift: None,
        policy: None,
        role: None,
        logs_removed: None,
        completed_at: None,
        version: 1,
    }
}

/// Runs the deployment's next attempt on `host`, from second `from` on.
fn run(deployment: &mut Deployment, host: &str, from: i64) -> u32 {
    let code = SecretHash("code".to_owned());
    lifecycle::launch(deployment, 1, code.clone(), LIMITS, at(from)).unwrap();
    let number = deployment.attempts.last().unwrap().number;
    let claimant = Claimant { host: Some(host), ..Claimant::from("me") };
    let token = SecretHash("token".to_owned());
    lifecycle::claim(deployment, number, &code, claimant, token, (0, 0), at(from)).unwrap();
    number
}

fn lost() -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::Lost, "it vanished"))
}

/// Attempt 1 of deployment 1, which ran on `pod-1` from 100 to 200 and is not proved dead.
fn ended() -> Deployment {
    let mut deployment = queued(1, 1);
    let number = run(&mut deployment, "pod-1", 100);
    lifecycle::end(&mut deployment, number, lost(), at(200)).unwrap();
    deployment
}

fn asker() -> Deployment {
    let mut deployment = queued(2, 1);
    run(&mut deployment, "pod-2", 1_000);
    deployment
}

fn lock(who: &str, created: i64) -> StateLock {
    let operation = "OperationTypeApply".to_owned();
    let (id, who) = ("1-2-3".to_owned(), who.to_owned());
    StateLock { id, who, created: at(created), operation, host_process: None }
}

const HOLDER: LockOwner = LockOwner { deployment: DeploymentId(Uuid::from_u128(1)), attempt: 1 };

#[test]
fn the_end_of_an_attempt_is_no_proof_and_the_report_of_the_platform_is() {
    let mut dead = ended();
    let lock = lock("@pod-1", 150);
    assert_eq!(decide(&lock, &asker(), 1, &[dead.clone()]), LockDecision::Wait(HOLDER));
    assert!(lifecycle::job_gone(&mut dead, 1, at(230)));
    assert!(!lifecycle::job_gone(&mut dead, 1, at(240)), "the first proof stays");
    let proof = Proof { holder: HOLDER, gone_at: at(230) };
    assert_eq!(decide(&lock, &asker(), 1, &[dead]), LockDecision::Break(proof));
    let mut runs = asker();
    assert!(!lifecycle::job_gone(&mut runs, 1, at(1_001)), "a running job cannot be gone");
}

#[test]
fn only_a_lock_of_the_host_and_the_time_of_a_dead_attempt_is_its_own() {
    let mut dead = ended();
    lifecycle::job_gone(&mut dead, 1, at(230));
    let decision = |who: &str, created| decide(&lock(who, created), &asker(), 1, &[dead.clone()]);
    assert!(matches!(decision("root@pod-1", 100 - SKEW), LockDecision::Break(_)));
    assert!(matches!(decision("a@b@pod-1", 200 + SKEW), LockDecision::Break(_)));
    assert_eq!(decision("root@pod-1", 99 - SKEW), LockDecision::Keep(KeepReason::UnknownOwner));
    assert_eq!(decision("root@pod-1", 201 + SKEW), LockDecision::Keep(KeepReason::UnknownOwner));
    for who in ["root@pod-11", "root@pod", "pod-1@laptop", "root@POD-1"] {
        assert_eq!(decision(who, 150), LockDecision::Keep(KeepReason::UnknownOwner), "{who}");
    }
    for who in ["", "root", "root@"] {
        assert_eq!(decision(who, 150), LockDecision::Keep(KeepReason::NoHost), "{who}");
    }
    // The same in another environment, which has another state.
    let mut elsewhere = asker();
    elsewhere.env_uuid = EnvUuid(Uuid::from_u128(2));
    let verdict = decide(&lock("root@pod-1", 150), &elsewhere, 1, &[dead]);
    assert_eq!(verdict, LockDecision::Keep(KeepReason::UnknownOwner));
}

#[test]
fn a_live_process_on_the_host_of_a_dead_attempt_keeps_the_lock() {
    let mut dead = ended();
    lifecycle::job_gone(&mut dead, 1, at(230));
    let lock = StateLock { host_process: Some(77), ..lock("root@pod-1", 150) };
    assert_eq!(
        decide(&lock, &asker(), 1, &[dead]),
        LockDecision::Keep(KeepReason::HostProcess(77))
    );
}

#[test]
fn all_attempts_that_may_have_made_a_lock_must_be_dead() {
    let mut dead = ended();
    lifecycle::job_gone(&mut dead, 1, at(230));
    let mut other = queued(3, 1);
    run(&mut other, "pod-1", 160);
    let lock = lock("@pod-1", 150);
    let holder = LockOwner { deployment: other.id, attempt: 1 };
    let decision = |other: &Deployment| decide(&lock, &asker(), 1, &[dead.clone(), other.clone()]);
    assert_eq!(decision(&other), LockDecision::Wait(holder), "it still runs");
    lifecycle::end(&mut other, 1, lost(), at(300)).unwrap();
    assert_eq!(decision(&other), LockDecision::Wait(holder));
    lifecycle::job_gone(&mut other, 1, at(310));
    let likeliest = Proof { holder: HOLDER, gone_at: at(230) };
    assert_eq!(decision(&other), LockDecision::Break(likeliest));
    // An attempt that succeeded has freed its locks, and does not count.
    let mut good = queued(3, 1);
    run(&mut good, "pod-1", 100);
    lifecycle::end(&mut good, 1, Outcome::Succeeded, at(200)).unwrap();
    assert_eq!(decision(&good), LockDecision::Break(likeliest));
    assert_eq!(decide(&lock, &asker(), 1, &[good]), LockDecision::Keep(KeepReason::UnknownOwner));
}

#[test]
fn an_earlier_attempt_of_the_same_deployment_counts_and_the_asker_does_not() {
    let mut asker = queued(2, 1);
    run(&mut asker, "pod-1", 100);
    lifecycle::end(&mut asker, 1, lost(), at(200)).unwrap();
    lifecycle::job_gone(&mut asker, 1, at(200));
    run(&mut asker, "pod-2", 210);
    let holder = LockOwner { deployment: asker.id, attempt: 1 };
    let proof = Proof { holder, gone_at: at(200) };
    assert_eq!(decide(&lock("@pod-1", 150), &asker, 2, &[]), LockDecision::Break(proof));
    let own = decide(&lock("@pod-2", 250), &asker, 2, &[asker.clone()]);
    assert_eq!(own, LockDecision::Keep(KeepReason::UnknownOwner));
}

#[test]
fn a_wait_is_shown_and_triggers_a_check_by_the_launcher_and_ends_with_the_proof() {
    let (lock, mut asker) = (lock("@pod-1", 150), asker());
    let wait = LockDecision::Wait(HOLDER);
    assert!(record_decision(&mut asker, &lock, &wait, at(1_005)));
    assert!(asker.message.contains("attempt 1 of deployment"), "{}", asker.message);
    assert_eq!(awaited_job(&asker, at(1_005)), Some(HOLDER));
    record_check(&mut asker, Some("its job still lives".to_owned()), at(1_020));
    assert_eq!(awaited_job(&asker, at(1_006)), None, "not before it asks again");
    assert!(record_decision(&mut asker, &lock, &wait, at(1_010)));
    let reported =
        |asker: &Deployment| asker.open_attempt().unwrap().lock.clone().unwrap().platform_report;
    assert_eq!(reported(&asker).as_deref(), Some("its job still lives"));
    record_check(&mut asker, None, at(1_025));
    assert_eq!(awaited_job(&asker, at(1_030)), None);
    let verdict = LockDecision::Break(Proof { holder: HOLDER, gone_at: at(1_010) });
    assert!(record_decision(&mut asker, &lock, &verdict, at(1_011)));
    assert!(
        !record_decision(&mut asker, &lock, &verdict, at(1_012)),
        "the same again changes nothing"
    );
    assert_eq!(asker.message, "");
}

/// A deployment with a few attempts on few hosts, in one of two environments, each proved dead or not.
fn history(id: u128) -> impl Strategy<Value = Deployment> {
    let attempt = (0_usize..3, 0_i64..600, 1_i64..600, any::<bool>(), any::<bool>());
    (1_u128..3, prop::collection::vec(attempt, 0..4)).prop_map(move |(environment, attempts)| {
        let mut deployment = queued(id, environment);
        let mut now = 0;
        for (host, pause, length, ends, proved) in attempts {
            if deployment.open_attempt().is_some() || deployment.status.is_terminal() {
                break;
            }
            now += pause;
            let number = run(&mut deployment, ["pod-1", "pod-2", "pod-3"][host], now);
            now += length;
            if ends {
                lifecycle::end(&mut deployment, number, lost(), at(now)).unwrap();
            }
            if proved {
                lifecycle::job_gone(&mut deployment, number, at(now));
            }
        }
        deployment
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]
    #[test]
    fn no_lock_is_broken_whose_owner_may_be_alive(
        others in (history(1), history(3), history(4)),
        mine in history(2),
        host in 0_usize..4,
        created in -300_i64..3_000,
    ) {
        let mut mine = mine;
        if mine.open_attempt().is_none() {
            prop_assume!(mine.attempts.len() < 5 && !mine.status.is_terminal());
            run(&mut mine, "pod-3", 2_500);
        }
        let number = mine.attempts.last().unwrap().number;
        let host = ["pod-1", "pod-2", "pod-3", "laptop"][host];
        let lock = lock(&format!("root@{host}"), created);
        let others = [others.0, others.1, others.2];
        let verdict = decide(&lock, &mine, number, &others);

        // An independent computation: each attempt of this environment except the asker's own, and whether
        // the lock is of its host and within its lifetime, which continues while it has not ended.
        let all = others.iter().chain([&mine]).filter(|other| other.env_uuid == mine.env_uuid);
        let mut suspects = Vec::new();
        for other in all {
            for attempt in &other.attempts {
                let own = other.id == mine.id && attempt.number == number;
                let claim = attempt.claim.as_ref().unwrap();
                let end = attempt.ended.as_ref().map_or(i64::MAX, |ended| ended.at.as_second() + SKEW);
                let lived = claim.at.as_second() - SKEW <= at(created).as_second()
                    && at(created).as_second() <= end;
                if !own && claim.host.as_deref() == Some(host) && lived {
                    suspects.push(attempt.ended.is_some() && attempt.job_gone_at.is_some());
                }
            }
        }
        match verdict {
            LockDecision::Break(proof) => {
                prop_assert!(!suspects.is_empty() && suspects.iter().all(|dead| *dead));
                let of = others.iter().chain([&mine]).find(|other| other.id == proof.holder.deployment);
                let attempt = &of.unwrap().attempts[proof.holder.attempt as usize - 1];
                prop_assert_eq!(attempt.job_gone_at, Some(proof.gone_at));
                prop_assert!(attempt.ended.is_some());
            }
            LockDecision::Wait(_) => prop_assert!(suspects.iter().any(|dead| !dead)),
            LockDecision::Keep(_) => prop_assert!(suspects.is_empty()),
        }
    }
}

#[test]
fn an_attempt_that_ended_without_proof_may_make_locks_until_its_job_is_gone() {
    let mut unproved = queued(1, 1);
    let number = run(&mut unproved, "pod-1", 100);
    let stop = Stop { reason: StopReason::Silence, asked_at: at(100) };
    unproved.attempts[0].stop = Some(stop);
    lifecycle::end(&mut unproved, number, lost(), at(250)).unwrap();
    let late = lock("root@pod-1", 900);
    let decision = |of: &Deployment| decide(&late, &asker(), 1, std::slice::from_ref(of));
    assert_eq!(decision(&unproved), LockDecision::Wait(HOLDER));
    lifecycle::job_gone(&mut unproved, 1, at(890));
    let proof = Proof { holder: HOLDER, gone_at: at(890) };
    assert_eq!(decision(&unproved), LockDecision::Break(proof));
    unproved.attempts[0].job_gone_at = Some(at(700));
    assert_eq!(
        decision(&unproved),
        LockDecision::Keep(KeepReason::UnknownOwner),
        "it was gone before"
    );
}

#[test]
fn a_lock_is_kept_if_its_owner_proves_to_have_left_an_unwritten_state_after_the_asker_compared() {
    let (mut dead, lock) = (ended(), lock("root@pod-1", 150));
    dead.could_not_write_state(1, None);
    for (gone_at, verdict) in [
        (1_100, LockDecision::Keep(KeepReason::Unwritten(dead.id))),
        (230, LockDecision::Break(Proof { holder: HOLDER, gone_at: at(230) })),
    ] {
        dead.attempts[0].job_gone_at = Some(at(gone_at));
        assert_eq!(decide(&lock, &asker(), 1, &[dead.clone()]), verdict);
    }
    // The job's end was proved late. Its administrator has been told when the attempt ended.
    dead.attempts[0].job_gone_at = Some(at(1_100));
    let accepting = Deployment { accept_state: true, ..asker() };
    let proof = Proof { holder: HOLDER, gone_at: at(1_100) };
    assert_eq!(decide(&lock, &accepting, 1, &[dead]), LockDecision::Break(proof));
}

#[test]
fn a_lock_whose_dead_owners_remains_are_unread_is_waited_for_unless_the_state_is_accepted() {
    let (mut dead, lock) = (ended(), lock("root@pod-1", 150));
    lifecycle::job_gone(&mut dead, 1, at(230));
    dead.set_salvage(1, Salvage::Pending, at(230));
    let decision =
        |asker: &Deployment, dead: &Deployment| decide(&lock, asker, 1, std::slice::from_ref(dead));
    let mut asker = asker();
    assert_eq!(decision(&asker, &dead), LockDecision::Wait(HOLDER));
    asker.accept_state = true;
    assert!(matches!(decision(&asker, &dead), LockDecision::Break(_)));
    asker.accept_state = false;
    dead.set_salvage(1, Salvage::Impossible, at(1_100));
    assert!(matches!(decision(&asker, &dead), LockDecision::Break(_)));
    // It was read after the asker had compared the state, or a moment before: the asker's claim may have read the
    // environment before it knew.
    dead.could_not_write_state(1, None);
    assert_eq!(decision(&asker, &dead), LockDecision::Keep(KeepReason::Unwritten(dead.id)));
    let claimed_at = asker.attempts[0].claim.as_ref().unwrap().at;
    for (seconds, is_kept) in [(SKEW - 1, true), (SKEW + 1, false)] {
        let read_at = claimed_at - SignedDuration::from_secs(seconds);
        dead.set_salvaged_at(1, read_at);
        assert_eq!(
            matches!(decision(&asker, &dead), LockDecision::Keep(_)),
            is_kept,
            "{seconds} s before"
        );
    }
    dead.set_salvaged_at(1, claimed_at - SignedDuration::from_secs(1));
    asker.accept_state = true;
    assert!(matches!(decision(&asker, &dead), LockDecision::Break(_)), "it accepts what was told");
}

#[test]
fn a_lock_of_another_user_of_the_host_is_not_the_dead_jobs() {
    let (mut dead, lock) = (ended(), lock("root@pod-1", 150));
    lifecycle::job_gone(&mut dead, 1, at(230));
    for (user, is_broken) in [(None, true), (Some("root"), true), (Some("canyon"), false)] {
        dead.attempts[0].claim.as_mut().unwrap().user = user.map(str::to_owned);
        let verdict = decide(&lock, &asker(), 1, std::slice::from_ref(&dead));
        let expected = if is_broken {
            LockDecision::Break(Proof { holder: HOLDER, gone_at: at(230) })
        } else {
            LockDecision::Keep(KeepReason::UnknownOwner)
        };
        assert_eq!(verdict, expected, "{user:?}");
    }
}
