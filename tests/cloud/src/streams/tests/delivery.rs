//! The delivery of one batch.

use super::*;
use crate::streams::record::{Origin, Record, complete};
use crate::streams::report::Report::{Failed, From, Taken};
use crate::streams::{deliver, order, report};

fn shared(change: &Value, script: &Arc<Script>) -> Shared {
    Shared {
        rules: Rules::read(&mapping(change)).unwrap(),
        target: script.clone(),
        function_arn: "arn:f".to_owned(),
        may_send: Box::new(|queue| queue.ends_with(":dead")),
        scale: 1_000.0,
        chance: Chance::new(3),
        disturbance: Mutex::default(),
        counts: Mutex::default(),
        failed: Mutex::default(),
        inserted: Mutex::default(),
        former: Mutex::default(),
        trouble: Mutex::default(),
        pending: AtomicU64::new(0),
        quiet: watch::Sender::new(0),
    }
}

fn records(keys: &[&str]) -> Vec<Record> {
    let origin = Origin { stream_arn: "arn:s".to_owned(), region: "eu-west-1".to_owned() };
    let records = keys.iter().enumerate().map(|(at, key)| {
        let given = complete(json!({"dynamodb": {"Keys": {"pk": {"S": key}}}}));
        origin.record(given, at as u128 + 1, 0)
    });
    records.collect()
}

async fn delivered(change: &Value, script: &Arc<Script>, keys: &[&str]) -> Shared {
    let shared = shared(change, script);
    deliver::deliver(records(keys), &shared).await;
    shared
}

fn number(record: &Record) -> Value {
    json!(record.sequence.to_string())
}

#[tokio::test]
async fn a_poison_record_is_given_up_alone_and_its_message_holds_no_data() {
    let script = Script::choking(&["poison"]);
    let shared = delivered(&json!({}), &script, &["a", "b", "poison", "c", "d"]).await;
    let failed = lock(&shared.failed).clone();
    assert_eq!(failed.len(), 1, "one message: {failed:?}");
    let [poison] = &records(&["a", "b", "poison"])[2..] else { panic!() };
    let info = &failed[0]["DDBStreamBatchInfo"];
    assert_eq!(
        (&info["startSequenceNumber"], &info["endSequenceNumber"]),
        (&number(poison), &number(poison))
    );
    assert_eq!(
        (&info["batchSize"], &failed[0]["requestContext"]["condition"]),
        (&json!(1), &json!("RetryAttemptsExhausted"))
    );
    assert!(!failed[0].to_string().contains("\"pk\""), "metadata only");
    let taken = script.keys();
    assert_eq!(taken[..2], [vec!["a", "b", "poison", "c", "d"], vec!["poison", "c", "d"]]);
    assert_eq!(taken.iter().filter(|batch| **batch == ["poison"]).count(), 3, "a try and two more");
    assert!(taken.contains(&vec!["c".to_owned(), "d".to_owned()]), "{taken:?}");
}

#[tokio::test]
async fn an_error_of_the_function_bisects_the_batch_without_using_up_its_attempts() {
    let script = Script::new(|batch| {
        if batch.iter().any(|one| one.key == "bad") {
            return Err(TargetError::Failed("it does not parse".to_owned()));
        }
        Ok(String::new())
    });
    let shared =
        delivered(&json!({"MaximumRetryAttempts": 0}), &script, &["a", "b", "bad", "c"]).await;
    let expected =
        [vec!["a", "b", "bad", "c"], vec!["a", "b"], vec!["bad", "c"], vec!["bad"], vec!["c"]];
    assert_eq!(script.keys(), expected);
    assert_eq!((lock(&shared.counts).discarded, lock(&shared.failed).len()), (1, 1));
}

#[tokio::test]
async fn without_bisecting_the_whole_rest_is_retried_and_given_up_together() {
    let script = Script::choking(&["bad"]);
    let change = json!({"BisectBatchOnFunctionError": false, "MaximumRetryAttempts": 1});
    let shared = delivered(&change, &script, &["a", "bad", "c"]).await;
    assert_eq!(script.keys(), [vec!["a", "bad", "c"], vec!["bad", "c"]]);
    assert_eq!(lock(&shared.failed)[0]["DDBStreamBatchInfo"]["batchSize"], 2);
}

#[tokio::test]
async fn too_old_records_are_not_retried() {
    let script = Script::new(|_| {
        std::thread::sleep(Duration::from_millis(1_050));
        Err(TargetError::Failed("slow and failing".to_owned()))
    });
    let change = json!({"MaximumRecordAgeInSeconds": 1, "MaximumRetryAttempts": -1});
    let shared = delivered(&change, &script, &["a"]).await;
    assert_eq!(script.keys().len(), 1);
    assert_eq!(lock(&shared.failed)[0]["requestContext"]["condition"], "RecordAgeExceeded");
}

#[tokio::test]
async fn a_function_that_is_not_started_costs_no_attempt_and_bisects_nothing() {
    let throttled = AtomicU64::new(3);
    let script = Script::new(move |_| match throttled.load(Ordering::SeqCst) {
        0 => Ok(String::new()),
        left => {
            throttled.store(left - 1, Ordering::SeqCst);
            Err(TargetError::NotStarted("Rate Exceeded.".to_owned()))
        }
    });
    let shared = delivered(&json!({"MaximumRetryAttempts": 0}), &script, &["a", "b"]).await;
    assert_eq!(script.keys(), vec![vec!["a", "b"]; 4]);
    assert_eq!(lock(&shared.counts).discarded, 0);
}

#[tokio::test]
async fn a_message_that_the_role_may_not_send_is_lost() {
    let script = Script::choking(&["bad"]);
    let to = json!({"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:other"}}});
    let shared = delivered(&to, &script, &["bad"]).await;
    assert_eq!((lock(&shared.counts).discarded, lock(&shared.failed).len()), (1, 0));
}

#[test]
fn an_answer_means_what_the_documentation_says() {
    let records = records(&["a", "b", "c"]);
    let name = |at: usize| records[at].sequence.to_string();
    let failures = |value: Value| json!({"batchItemFailures": value}).to_string();
    for (answer, expected) in [
        (String::new(), Taken),
        ("null".to_owned(), Taken),
        ("{}".to_owned(), Taken),
        (failures(json!([])), Taken),
        (failures(json!(null)), Taken),
        (
            failures(json!([{"itemIdentifier": name(2)}, {"itemIdentifier": name(1)}])),
            From(records[1].sequence),
        ),
        (failures(json!([{"itemIdentifier": ""}])), Failed),
        (failures(json!([{"itemIdentifier": null}])), Failed),
        (failures(json!([{"itemIdentifie": name(1)}])), Failed),
        (failures(json!([{"itemIdentifier": name(1)}, {"itemIdentifier": "999"}])), Failed),
        (failures(json!("x")), Failed),
        (json!({"failures": []}).to_string(), Failed),
        ("not JSON".to_owned(), Failed),
    ] {
        assert_eq!(report::read(answer.as_bytes(), true, &records), expected, "{answer}");
        assert_eq!(report::read(answer.as_bytes(), false, &records), Taken, "{answer}");
    }
}

#[test]
fn a_shuffle_keeps_the_order_of_each_item_and_loses_nothing() {
    let shared = shared(&json!({}), &Script::content());
    *lock(&shared.disturbance) =
        Disturbance { shuffle: true, replay: 1.0, ..Disturbance::default() };
    let keys: Vec<_> = (0..60).map(|at| ["a", "b", "c", "d"][at % 4]).collect();
    let given = records(&keys);
    order::disturbed(records(&["old"]), &shared);
    let mixed = order::disturbed(given.clone(), &shared);
    assert_eq!(mixed.len(), 120, "each replayed once");
    let fresh: Vec<_> = mixed.iter().filter(|one| one.item != records(&["old"])[0].item).collect();
    assert_eq!(fresh.len(), 60);
    assert_ne!(
        fresh.iter().map(|one| one.sequence).collect::<Vec<_>>(),
        given.iter().map(|one| one.sequence).collect::<Vec<_>>()
    );
    for key in ["a", "b", "c", "d"] {
        let of_key = |one: &&&Record| one.event["dynamodb"]["Keys"]["pk"]["S"] == key;
        let order: Vec<_> = fresh.iter().filter(of_key).map(|one| one.sequence).collect();
        assert!(order.is_sorted() && order.len() == 15, "{key}: {order:?}");
    }
}

#[test]
fn settings_that_lambda_would_refuse_are_refused() {
    for change in [
        json!({"BatchSize": 10_001}),
        json!({"ParallelizationFactor": 11}),
        json!({"StartingPosition": "AT_TIMESTAMP"}),
        json!({"FunctionResponseTypes": ["ReportFailures"]}),
        json!({"FilterCriteria": {"Filters": [{"Pattern": "{"}]}}),
    ] {
        assert!(Rules::read(&mapping(&change)).is_err(), "{change}");
    }
}
