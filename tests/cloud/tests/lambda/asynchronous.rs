//! Lambda's queue of asynchronous events.

use crate::puppet::{Puppet, puppet};
use canyon_cloud::runtime::{AsyncConfig, Condition, FailedEvent};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A queue whose minute lasts 0.3 seconds.
fn quick(change: impl FnOnce(&mut AsyncConfig)) -> (Puppet, Arc<Mutex<Vec<FailedEvent>>>) {
    let puppet = puppet(|config| {
        config.asynchronous.time_scale = 200;
        change(&mut config.asynchronous);
    });
    let failed: Arc<Mutex<Vec<FailedEvent>>> = Arc::default();
    let seen = failed.clone();
    puppet.function.on_failure(move |event| seen.lock().unwrap().push(event));
    (puppet, failed)
}

fn queue(puppet: &Puppet, orders: &Value) -> String {
    puppet.function.invoke_async(orders.to_string()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successful_event_runs_once() {
    let (puppet, failed) = quick(|_| {});
    queue(&puppet, &json!({ "print": "ran" }));
    puppet.function.settled().await;
    assert_eq!(puppet.function.log().matches("ran").count(), 1);
    assert!(failed.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_event_is_tried_three_times_and_passed_on() {
    let (puppet, failed) = quick(|_| {});
    let began = Instant::now();
    let request_id = queue(&puppet, &json!({ "fail": "bad luck" }));
    puppet.function.settled().await;
    assert!(began.elapsed() >= Duration::from_millis(900), "a minute, then two");
    let reports = puppet.function.reports();
    assert_eq!(reports.len(), 3);
    assert!(reports.iter().all(|report| report.request_id == request_id), "{reports:?}");

    let failed = failed.lock().unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].condition, Condition::RetriesExhausted);
    let record = failed[0].record();
    assert_eq!(record["requestContext"]["approximateInvokeCount"], 3);
    assert_eq!(record["requestContext"]["condition"], "RetriesExhausted");
    assert_eq!(record["requestPayload"]["fail"], "bad luck");
    assert_eq!(record["responsePayload"]["errorMessage"], "bad luck");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_event_waits_and_costs_no_attempt() {
    let (puppet, failed) = quick(|_| {});
    puppet.function.limit_concurrency(0);
    queue(&puppet, &json!({ "print": "ran" }));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(puppet.function.reports().is_empty());
    puppet.function.limit_concurrency(1);
    puppet.function.settled().await;
    assert_eq!(puppet.function.reports().len(), 1);
    assert!(failed.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_too_old_event_is_passed_on() {
    let (puppet, failed) = quick(|config| config.maximum_event_age = Duration::from_mins(1));
    puppet.function.limit_concurrency(0);
    queue(&puppet, &json!({}));
    puppet.function.settled().await;
    let failed = failed.lock().unwrap();
    assert_eq!(failed[0].condition, Condition::EventAgeExceeded);
    assert_eq!(failed[0].attempts, 0);
    assert!(failed[0].record().get("responsePayload").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_has_at_most_one_megabyte() {
    let (puppet, _) = quick(|_| {});
    puppet.function.invoke_async(vec![b' '; 1024 * 1024 + 1]).unwrap_err();
}
