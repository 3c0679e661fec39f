//! Calls that get faults.

use super::*;
use std::time::{Duration, Instant};

#[tokio::test]
async fn each_fault_happens_as_often_as_asked_and_commits_or_not_as_named() {
    let (front, seen) = front().await;
    let url = front.open("api", Policy::administrator()).await.unwrap();
    let transaction = json!({"TransactItems": [{"Put": {"TableName": "canyon"}}, {"Put": {"TableName": "canyon"}}]});
    let target = "DynamoDB_20120810.TransactWriteItems";
    for (fault, expected, commits) in [
        (Fault::Throttle, Some("ProvisionedThroughputExceededException"), false),
        (Fault::Conflict, Some("TransactionCanceledException"), false),
        (Fault::ErrorBefore, Some("InternalServerError"), false),
        (Fault::ErrorAfter, Some("InternalServerError"), true),
        (Fault::CutBefore, None, false),
        (Fault::CutAfter, None, true),
    ] {
        seen.lock().unwrap().clear();
        front.set_faults(vec![FaultRule::new("dynamodb:Transact*", fault, 1.0).of("a?i").times(1)]);
        let request = client().post(&url).header("authorization", signed("dynamodb"));
        let answer =
            request.header("x-amz-target", target).body(transaction.to_string()).send().await;
        match expected {
            Some(name) => {
                assert!(answer.unwrap().text().await.unwrap().contains(name), "{fault:?}");
            }
            None => assert!(answer.is_err(), "{fault:?} must leave no answer"),
        }
        assert_eq!(seen.lock().unwrap().len(), usize::from(commits), "{fault:?}");
        let (status, _) = call(&url, "dynamodb", target, &transaction).await;
        assert_eq!(status, 200, "{fault:?} was to happen once");
        assert_eq!(front.faults_injected()[fault.name()], 1);
    }
    front.forget();
    front.set_faults(vec![FaultRule::new("dynamodb:TransactWriteItems", Fault::Conflict, 0.2)]);
    let mut reasons = json!(null);
    for _ in 0..200 {
        let (status, answer) = call(&url, "dynamodb", target, &transaction).await;
        if status == 400 {
            reasons = answer["CancellationReasons"].clone();
        }
        call(&url, "dynamodb", "DynamoDB_20120810.GetItem", &json!({"TableName": "canyon"})).await;
    }
    let count = front.faults_injected()["conflict"];
    assert!((20..=60).contains(&count), "{count} of 200 at 20 %");
    assert_eq!(
        (&reasons[0]["Code"], &reasons[1]["Code"]),
        (&json!("TransactionConflict"), &json!("None"))
    );
    let faulted =
        front.records().into_iter().filter(|one| one.outcome == Outcome::Faulted("conflict"));
    assert_eq!(faulted.count() as u64, count);
}

#[tokio::test]
async fn a_fault_reaches_only_those_calls_that_can_have_it() {
    let (front, _) = front().await;
    let url = front.open("api", Policy::administrator()).await.unwrap();
    let slow = Fault::Latency(Duration::from_millis(40));
    front.set_faults(vec![
        FaultRule::new("*", Fault::Conflict, 1.0),
        FaultRule::new("*", Fault::Partial, 1.0),
        FaultRule::new("kms:*", slow, 1.0),
        FaultRule::new("*", Fault::Throttle, 1.0).of("sweep"),
    ]);
    let start = Instant::now();
    let (status, _) = call(&url, "kms", "TrentService.Sign", &json!({"KeyId": "k"})).await;
    assert!(status == 200 && start.elapsed() >= Duration::from_millis(40));
    let put = call(&url, "dynamodb", "DynamoDB_20120810.PutItem", &json!({"TableName": "t"})).await;
    assert!(put.1["__type"].as_str().unwrap().ends_with("#TransactionConflictException"));
    let wanted = json!({"RequestItems": {"t": {"Keys": []}}});
    let (_, batch) = call(&url, "dynamodb", "DynamoDB_20120810.BatchGetItem", &wanted).await;
    assert_eq!(batch["UnprocessedKeys"], wanted["RequestItems"]);
    let (_, events) = call(&url, "events", "AWSEvents.PutEvents", &json!({"Entries": [{}]})).await;
    assert_eq!(events["FailedEntryCount"], 1);
}

#[tokio::test]
async fn an_event_that_the_bus_accepted_is_published_even_if_the_caller_gets_no_answer() {
    let (front, _) = front().await;
    let url = front.open("launcher", Policy::administrator()).await.unwrap();
    let taken: Arc<Mutex<Vec<PutEntry>>> = Arc::default();
    let inbox = taken.clone();
    front.on_put_events(Arc::new(move |entry| inbox.lock().unwrap().push(entry)));
    front.set_faults(vec![FaultRule::new("events:PutEvents", Fault::ErrorAfter, 1.0)]);
    let entries = json!({"Entries": [{"EventBusName": "canyon", "Source": "canyon"}, {}]});
    let (status, _) = call(&url, "events", "AWSEvents.PutEvents", &entries).await;
    assert_eq!(status, 500);
    let taken = taken.lock().unwrap();
    let found: Vec<_> = taken.iter().map(|one| (&*one.function, &*one.id, &*one.bus)).collect();
    assert_eq!(found, [("launcher", "e-1", "canyon")], "the second entry failed");
}
