//! Kills that a test requests.

use crate::puppet::{lives, puppet};
use canyon_cloud::runtime::{InvokeError, Kill};
use serde_json::json;
use std::time::{Duration, Instant};

fn killed() -> InvokeError {
    InvokeError::Crashed { how: "with error: signal: killed".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_killed_during_its_work() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    puppet.function.kill_during(|invocation| {
        (invocation.number == 2).then_some(Kill::After(Duration::from_secs(1)))
    });
    let began = Instant::now();
    let orders = json!({ "print": "begun", "sleep": 10_000 });
    assert_eq!(puppet.play(orders).await, Err(killed()));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(puppet.function.log().contains("begun"));
    assert!(!lives(before));
    assert_ne!(puppet.pid().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_killed_after_its_work_and_its_answer_is_lost() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    puppet.function.kill_during(|_| Some(Kill::BeforeResponse));
    assert_eq!(puppet.play(json!({ "print": "done" })).await, Err(killed()));
    assert!(puppet.function.log().contains("done"));
    assert!(!lives(before));
    puppet.function.spare();
    assert_ne!(puppet.pid().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_kills_busy_and_idle_processes() {
    let puppet = puppet(|_| {});
    let (a, b) =
        tokio::join!(puppet.play(json!({ "sleep": 300 })), puppet.play(json!({ "sleep": 300 })));
    let [a, b] = [a, b].map(|answer| answer.unwrap()["pid"].as_u64().unwrap());
    assert_eq!(puppet.function.warm_processes().len(), 2);
    let (worker, ()) = tokio::join!(puppet.play(json!({ "sleep": 10_000 })), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        puppet.function.restart_all().await;
    });
    assert_eq!(worker, Err(killed()));
    assert!(!lives(a) && !lives(b));
    assert!(![a, b].contains(&puppet.pid().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_process_that_was_killed_is_not_used() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    let [pid] = puppet.function.warm_processes()[..] else { panic!("one process waits") };
    assert_eq!(u64::try_from(pid).unwrap(), before);
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    crate::puppet::until("its death", || !lives(before)).await;
    assert_ne!(puppet.pid().await, before);
}
