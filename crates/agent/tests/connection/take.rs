//! Taking offers over a connection that breaks: no job is started twice, and no job that was taken is forgotten.

use crate::world::{Fault, Seen, World, listen, work};
use canyon_agent::sign_in::SignIn;
use std::time::Duration;

/// What an agent did until its job was started and reported as alive, with these faults.
async fn worked_through(faults: impl IntoIterator<Item = Fault>) -> Seen {
    let world = World::default();
    world.lock().unwrap().faults.extend(faults);
    let url = listen(&world).await;
    let reported = async {
        while world.lock().unwrap().reports.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let worked = work(&world, &url, SignIn::Token("t".into()), reported);
    let Ok(seen) = tokio::time::timeout(Duration::from_secs(20), worked).await else {
        panic!("the job was never reported")
    };
    seen
}

#[tokio::test]
async fn a_take_whose_answer_is_lost_is_repeated_until_the_job_is_started() {
    let seen = worked_through([Fault::Cut, Fault::Cut, Fault::Cut]).await;
    let sessions: Vec<_> = seen.takes.iter().map(|(session, _)| *session).collect();
    assert_eq!(sessions, [1, 1, 1, 1], "in the same session");
    assert_eq!(seen.started, ["of 1"], "once");
    assert_eq!(seen.reports[0]["observation"]["state"], "alive", "{:?}", seen.reports);
}

#[tokio::test]
async fn an_unconfirmed_take_outlives_its_session_and_the_job_is_never_reported_as_gone() {
    let seen = worked_through([Fault::Cut, Fault::Over, Fault::Cut]).await;
    let sessions: Vec<_> = seen.takes.iter().map(|(session, _)| *session).collect();
    assert_eq!(sessions, [1, 1, 2, 2]);
    assert_eq!(seen.started, ["of 2"]);
    assert!(seen.reports.iter().all(|report| report["observation"]["state"] == "alive"));
}

#[tokio::test]
async fn a_busy_canyon_gets_the_take_after_its_pause_and_polls_in_the_meantime() {
    let seen = worked_through([Fault::Busy]).await;
    let [(_, first), (_, second)] = seen.takes[..] else { panic!("{:?}", seen.takes) };
    assert!(second - first >= Duration::from_secs(1), "{:?}", second - first);
    assert!(seen.polls.iter().any(|poll| *poll > first && *poll < second), "no poll in between");
    assert_eq!(seen.started, ["of 1"]);
}
