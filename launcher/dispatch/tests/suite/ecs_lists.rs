//! Tasks that ECS does not show: not yet, no longer, or because it throttles the reads.

use crate::behaviour::{new_job, until_gone};
use crate::ecs::simple;
use crate::ecs_bed::Account;
use canyon_dispatch::{JobRef, Platform as _, RemovalOutcome, Started, StopMode, TailStream};
use canyon_domain::deadline::Observation;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ecs_does_not_show_yet_is_not_gone() {
    let account = Account::new(&json!({ "lag_seconds": 6 }));
    let (kind, mut job) = (account.dispatcher(), new_job());
    let Started::Now(handle) = kind.start(&simple(&job)).await.unwrap() else { panic!() };
    job.handle = handle;
    let mut waited = 0;
    for _ in 0..20 {
        match kind.observe(&job).await {
            Observation::Alive => {}
            Observation::Waiting(_) => waited += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(waited > 0, "no read lagged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_another_process_started_is_not_gone_while_the_lists_lag() {
    let account = Account::new(&json!({ "lag_seconds": 600 }));
    let job = new_job();
    account.dispatcher().start(&simple(&job)).await.unwrap();
    // This process has neither the handle nor the cache of the one that started the task.
    let another = account.another_canyon().dispatcher(&account.target(|_| {}));
    let mut missed = 0;
    for _ in 0..20 {
        match another.observe(&job).await {
            Observation::Alive | Observation::Waiting(_) => {}
            Observation::Unknown(reason) => {
                assert!(reason.contains("lists lag behind"), "{reason}");
                missed += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(missed > 0, "no list lagged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_never_started_is_gone_once_lists_cannot_lag_and_may_be_stopped() {
    let account = Account::new(&json!({}));
    let (kind, job) = (account.dispatcher(), new_job());
    assert!(matches!(kind.observe(&job).await, Observation::Unknown(_)));
    account.time_passes(110);
    assert!(matches!(kind.observe(&job).await, Observation::Unknown(_)));
    account.time_passes(20);
    assert_eq!(kind.observe(&job).await, Observation::Gone(None));
    for how in [StopMode::Graceful, StopMode::Kill] {
        kind.stop(&job, how).await.unwrap();
    }
    assert_eq!(kind.tail(&job, TailStream::Log, 0).await.unwrap(), b"");
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
    // Once the job is started, its earlier absence does not count.
    kind.start(&simple(&job)).await.unwrap();
    let another = kind.observe(&job).await;
    assert!(!matches!(another, Observation::Gone(_)), "{another:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ecs_has_forgotten_is_gone_and_may_be_stopped() {
    let account = Account::new(&json!({ "outcome": { "exit_code": 1 } }));
    let kind = account.dispatcher();
    let mut job = new_job();
    let Started::Now(handle) = kind.start(&simple(&job)).await.unwrap() else { panic!() };
    job.handle = handle;
    until_gone(&*kind, &job).await;
    account.time_passes(2 * 3_600);
    // One answer may be stale; a second one minutes later is not.
    assert!(matches!(kind.observe(&job).await, Observation::Unknown(_)));
    account.time_passes(180);
    assert_eq!(kind.observe(&job).await, Observation::Gone(None));
    kind.stop(&job, StopMode::Kill).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_not_gone_while_ecs_throttles_its_reads() {
    let account = Account::new(&json!({ "read_rate": [1, 0.0001] }));
    let kind = account.dispatcher();
    let mut job = new_job();
    let Started::Now(handle) = kind.start(&simple(&job)).await.unwrap() else { panic!() };
    job.handle = handle;
    let first = kind.observe(&job).await;
    assert!(matches!(first, Observation::Alive | Observation::Waiting(_)), "{first:?}");
    // The one read is used up. Another process asks by ARN, and by the list if it has no ARN.
    let unrecorded = JobRef { handle: None, ..job.clone() };
    let another = account.another_canyon().dispatcher(&account.target(|_| {}));
    for _ in 0..2 {
        for job in [&job, &unrecorded] {
            match another.observe(job).await {
                Observation::Unknown(reason) => {
                    assert!(reason.contains("Rate exceeded"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
        // For so long, a task that ECS does not show is gone.
        account.time_passes(600);
    }
    assert!(account.throttled("DescribeTasks") > 0 && account.throttled("ListTasks") > 0);
}
