//! The limit on a whole deployment, over all its attempts.

use super::*;

#[test]
fn the_total_timeout_ends_a_deployment_in_every_state() {
    let timeouts =
        crate::runner::Timeouts { total: Some(SignedDuration::from_secs(100)), ..TIMEOUTS };
    let limits = Limits::new(timeouts, at(0));
    let step = |of: &Deployment, second| next_step(of, &timeouts, Timestamp::MIN, at(second));
    let end_of_waiting = |of: &Deployment| match step(of, 100) {
        Step::End(Outcome::Failed(failure)) => failure.message,
        other => panic!("{other:?}"),
    };

    let mut deployment = queued();
    assert_eq!(step(&deployment, 99), Step::Launch);
    assert!(end_of_waiting(&deployment).contains("total_seconds"));

    launch(&mut deployment, 1, hash("code"), limits, at(1)).unwrap();
    assert_eq!(step(&deployment, 100), Step::Kill, "no runner claimed it");

    claim(&mut deployment, 1, &hash("code"), "me", hash("token"), (0, 0), at(2)).unwrap();
    let mut evicted = deployment.clone();
    end(&mut evicted, 1, failed(FailureClass::Evicted), at(50)).unwrap();
    assert_eq!(step(&evicted, 99), Step::Launch);
    assert!(end_of_waiting(&evicted).contains("evicted"), "why the earlier attempt ended");

    report(&mut deployment, 1, Phase::Plan, at(90)).unwrap();
    assert_eq!(deployment.due_at, Some(at(100)), "it is checked then, even if its runner reports");
    assert_eq!(step(&deployment, 100), Step::Stop);
    stopping(&mut deployment, at(100));
    end(&mut deployment, 1, Outcome::Cancelled, at(101)).unwrap();
    assert_eq!(deployment.status, Status::Failed);
    assert!(deployment.message.contains("total_seconds"), "{}", deployment.message);
}
