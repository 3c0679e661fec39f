//! When the launcher checks next, what it reads later, and the graph of states.

use super::*;
use crate::deadline::STOP_CHECK;

#[test]
fn each_state_has_its_next_check() {
    let mut deployment = launched();
    assert_eq!(deployment.due_at, Some(at(1) + START_RETRY_INTERVAL), "the start is repeated");
    observed(&mut deployment, Observation::Alive, at(5));
    assert_eq!(deployment.due_at, Some(at(5) + START_RETRY_INTERVAL), "no runner has reported");
    observed(&mut deployment, Observation::Alive, at(299));
    assert_eq!(deployment.due_at, Some(at(301)), "its time to start ends");
    let mut deployment = running();
    observed(&mut deployment, Observation::Alive, at(10));
    assert_eq!(deployment.due_at, Some(at(10) + LEASE / 4), "its runner is silent");
    stopping(&mut deployment, at(20));
    assert_eq!(deployment.due_at, Some(at(20) + STOP_CHECK));
    let mut deployment = launched();
    observed(&mut deployment, Observation::Queued("no room".to_owned()), at(299));
    assert_eq!(deployment.due_at, Some(at(299) + START_RETRY_INTERVAL), "it has not started");
}

#[test]
fn only_a_heartbeat_shortly_before_the_check_postpones_it() {
    let mut deployment = running();
    deployment.due_at = Some(at(62));
    let mut due = Vec::new();
    for second in [17, 32, 47, 62, 77, 92] {
        assert_eq!(report(&mut deployment, 1, Phase::Plan, at(second)), Ok(true), "at {second}");
        due.push(deployment.due_at.unwrap().duration_since(at(0)).as_secs());
    }
    assert_eq!(due, [62, 62, 107, 107, 107, 152]);
    assert_eq!(step(&deployment, 107), Step::Wait(at(152)), "the runner was not silent");
}

#[test]
fn what_a_job_left_is_read_later_if_it_applied_and_is_not_proved_gone() {
    for (phase, is_gone, salvage) in [
        (Phase::Plan, false, Salvage::Done),
        (Phase::Apply, false, Salvage::Pending),
        (Phase::Apply, true, Salvage::Done),
    ] {
        let mut deployment = running();
        report(&mut deployment, 1, phase, at(3)).unwrap();
        stopping(&mut deployment, at(400));
        let long_after = at(400 + 100_000);
        let answer = if is_gone {
            Observation::Gone(None)
        } else {
            Observation::Unknown("no answer".to_owned())
        };
        observed(&mut deployment, answer, long_after);
        let attempt = &deployment.attempts[0];
        assert!(attempt.ended.is_some());
        assert_eq!(attempt.salvage, salvage, "{phase:?}, {is_gone}");
        let stored = serde_json::to_value(attempt).unwrap();
        assert_eq!(stored.get("salvage").is_some(), salvage != Salvage::Done, "{stored}");
    }
}

#[test]
fn a_status_is_followed_by_those_of_the_published_graph_alone() {
    use Status as S;
    let all =
        [S::Queued, S::Launching, S::Running, S::Cancelling, S::Succeeded, S::Failed, S::Cancelled];
    let expected = |from| match from {
        S::Queued => vec![S::Launching, S::Failed, S::Cancelled],
        S::Launching => vec![S::Launching, S::Running, S::Cancelling, S::Failed, S::Cancelled],
        S::Running => vec![S::Launching, S::Cancelling, S::Succeeded, S::Failed, S::Cancelled],
        S::Cancelling => vec![S::Succeeded, S::Failed, S::Cancelled],
        S::Succeeded | S::Failed | S::Cancelled => Vec::new(),
    };
    for from in all {
        let next: Vec<_> = all.into_iter().filter(|next| from.may_become(*next)).collect();
        assert_eq!(next, expected(from), "{from:?}");
    }
}
