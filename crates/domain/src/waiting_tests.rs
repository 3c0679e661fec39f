//! What a deployment waits for, at each point of its life.

use super::*;
use crate::concurrency::LimitScope;
use crate::deadline::{deferred, postponed, start_sent, throttled};
use crate::deployment_queue::DeploymentQueue;
use crate::waiting::{Hold, Waiting, WaitingCode};

fn code_and_reason(of: &Deployment) -> (WaitingCode, String) {
    let waiting = Waiting::of(of, &DeploymentQueue::default()).unwrap();
    (waiting.code, waiting.reason)
}

#[test]
fn a_queued_deployment_waits_for_its_predecessor_before_anything_else() {
    let (first, mut second) = (DeploymentId(Uuid::from_u128(3)), queued());
    let mut queue = DeploymentQueue::default();
    queue.join(first).unwrap();
    queue.join(second.id).unwrap();
    deferred(&mut second, Hold::Runner, "it is disabled".to_owned(), at(60));
    let waiting = Waiting::of(&second, &queue).unwrap();
    assert_eq!((waiting.code, waiting.blocked_by), (WaitingCode::EarlierDeployment, Some(first)));
    assert_eq!((waiting.since, waiting.next_attempt_at), (at(0), Some(at(60))));
}

#[test]
fn a_program_learns_why_the_launcher_starts_no_attempt() {
    assert_eq!(code_and_reason(&queued()).0, WaitingCode::Launcher);
    for (hold, code) in [
        (Hold::Runner, WaitingCode::Runner),
        (Hold::Agent, WaitingCode::Agent),
        (Hold::Limit(LimitScope::Organization), WaitingCode::ConcurrencyLimit),
    ] {
        let mut deployment = queued();
        deferred(&mut deployment, hold, "not now".to_owned(), at(60));
        assert_eq!(code_and_reason(&deployment), (code, "not now".to_owned()));
        launch(&mut deployment, 1, hash("code"), LIMITS, at(61)).unwrap();
        assert_eq!(deployment.hold, None, "a launched attempt is not held back");
    }
}

#[test]
fn a_launched_job_waits_for_an_agent_until_one_takes_it_and_then_for_itself() {
    let mut deployment = launched();
    assert_eq!(code_and_reason(&deployment).0, WaitingCode::Job);
    observed(&mut deployment, Observation::Queued("no agent".to_owned()), at(2));
    assert_eq!(code_and_reason(&deployment), (WaitingCode::Agent, "no agent".to_owned()));
    observed(&mut deployment, Observation::Waiting("pulling".to_owned()), at(3));
    assert_eq!(code_and_reason(&deployment), (WaitingCode::Job, "pulling".to_owned()));
    postponed(&mut deployment, "throttled".to_owned(), at(9));
    assert_eq!(code_and_reason(&deployment), (WaitingCode::Job, "throttled".to_owned()));
    throttled(&mut deployment, "others come first".to_owned(), at(9));
    assert_eq!(
        code_and_reason(&deployment),
        (WaitingCode::Launcher, "others come first".to_owned())
    );
    let waiting = Waiting::of(&deployment, &DeploymentQueue::default()).unwrap();
    assert_eq!(waiting.next_attempt_at, Some(at(9)));
    assert!(start_sent(&mut deployment, at(9)));
    assert_eq!(code_and_reason(&deployment).0, WaitingCode::Job);
    observed(&mut deployment, Observation::Alive, at(10));
    claim(&mut deployment, 1, &hash("code"), "me", hash("token"), (0, 0), at(11)).unwrap();
    assert_eq!(
        Waiting::of(&deployment, &DeploymentQueue::default()),
        None,
        "its runner has reported"
    );
}

#[test]
fn between_two_attempts_a_deployment_waits_for_the_launcher_since_the_end_of_the_first() {
    let mut deployment = running();
    end(&mut deployment, 1, failed(FailureClass::Evicted), at(5)).unwrap();
    let waiting = Waiting::of(&deployment, &DeploymentQueue::default()).unwrap();
    assert_eq!((waiting.code, waiting.since), (WaitingCode::Launcher, at(5)));
    assert_eq!(waiting.next_attempt_at, deployment.due_at);
}
