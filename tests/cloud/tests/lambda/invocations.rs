//! The life of execution environments.

use crate::puppet::{lives, puppet, until};
use canyon_cloud::runtime::InvokeError;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

const LIMIT: usize = 6_291_556;

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_process_serves_again() {
    let puppet = puppet(|_| {});
    let first = puppet.play(json!({ "n": 1 })).await.unwrap();
    let second = puppet.play(json!({ "n": 2 })).await.unwrap();
    assert_eq!(second["event"]["n"], 2);
    assert_eq!(first["pid"], second["pid"]);
    assert_eq!(second["served"], 2);
    assert_ne!(first["request_id"], second["request_id"]);
    let reports = puppet.function.reports();
    assert!(reports[0].init.is_some() && reports[1].init.is_none(), "{reports:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_sees_the_variables_of_lambda_and_nothing_else() {
    let puppet = puppet(|config| *config = config.clone().with("CANYON_TABLE", "canyon"));
    let answer = puppet.play(json!({})).await.unwrap();
    let names: BTreeSet<&str> =
        answer["variables"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = BTreeSet::from([
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "CANYON_TABLE",
        "LAMBDA_RUNTIME_DIR",
        "LAMBDA_TASK_ROOT",
        "LANG",
        "PATH",
        "TZ",
        "_HANDLER",
        // The runtime itself sets this one for each event.
        "_X_AMZN_TRACE_ID",
    ]);
    assert_eq!(names, expected);
    assert_eq!(answer["arn"], "arn:aws:lambda:us-east-1:123456789012:function:puppet");
    assert!(answer["trace"].as_str().unwrap().starts_with("Root=1-"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let left =
        answer["deadline"].as_u64().unwrap().checked_sub(now.as_millis().try_into().unwrap());
    assert!((10_000..=20_000).contains(&left.unwrap()), "{left:?} of 20 s are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_serves_one_invocation_and_more_are_started_up_to_the_limit() {
    let puppet = puppet(|config| config.max_concurrency = 3);
    let three = join_all((0..3).map(|_| puppet.play(json!({ "sleep": 500 })))).await;
    let pids: BTreeSet<u64> =
        three.into_iter().map(|answer| answer.unwrap()["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 3);

    let four = join_all((0..4).map(|_| puppet.play(json!({ "sleep": 500 })))).await;
    let throttled = four.iter().filter(|answer| **answer == Err(InvokeError::Throttled)).count();
    assert_eq!(throttled, 1, "{four:?}");
    assert_eq!(puppet.function.reports().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_does_not_end_the_process() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    let Err(InvokeError::FunctionError { message, .. }) =
        puppet.play(json!({ "fail": "no such table" })).await
    else {
        panic!("it did not fail")
    };
    assert_eq!(message, "no such table");
    let Err(InvokeError::FunctionError { message, .. }) =
        puppet.play(json!({ "panic": "at the disco" })).await
    else {
        panic!("it did not fail")
    };
    assert!(message.contains("at the disco"), "{message}");
    assert_eq!(puppet.pid().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_fails_its_invocation_and_the_next_one_is_cold() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    let how = "with error: exit status 7".to_owned();
    assert_eq!(puppet.play(json!({ "exit": 7 })).await, Err(InvokeError::Crashed { how }));
    let how = "without providing a reason".to_owned();
    assert_eq!(puppet.play(json!({ "exit": 0 })).await, Err(InvokeError::Crashed { how }));
    assert_ne!(puppet.pid().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_killed_at_its_timeout() {
    let puppet = puppet(|config| config.timeout = Duration::from_millis(700));
    let before = puppet.pid().await;
    let began = Instant::now();
    let error = puppet.play(json!({ "sleep": 60_000 })).await.unwrap_err();
    assert_eq!(error.to_string(), "Task timed out after 0.70 seconds");
    assert!((700..30_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert!(!lives(before), "the process lives on");
    assert_ne!(puppet.pid().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_are_limited_in_both_directions() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    // The quotes count.
    let answer = puppet.play(json!({ "big": LIMIT - 2 })).await.unwrap();
    assert_eq!(answer.as_str().unwrap().len(), LIMIT - 2);
    let error = puppet.play(json!({ "big": LIMIT - 1 })).await.unwrap_err();
    assert_eq!(
        error.payload("1"),
        json!({
            "errorType": "Function.ResponseSizeTooLarge",
            "errorMessage": "Response payload size exceeded maximum allowed payload size \
                (6291556 bytes).",
        })
    );
    assert_eq!(puppet.pid().await, before, "it got the error, and continues");

    let frame = json!({ "answer": 1, "x": "" }).to_string().len();
    let event = |size: usize| json!({ "answer": 1, "x": "a".repeat(size - frame) });
    assert_eq!(puppet.play(event(LIMIT)).await, Ok(json!(1)));
    let error = InvokeError::RequestEntityTooLarge { limit: LIMIT };
    assert_eq!(puppet.play(event(LIMIT + 1)).await, Err(error));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_does_not_start_is_tried_twice_and_fails() {
    let exiting = puppet(|config| *config = config.clone().with("PUPPET_INIT", "exit"));
    let how = "with error: exit status 3".to_owned();
    assert_eq!(exiting.play(json!({})).await, Err(InvokeError::Crashed { how }));
    assert_eq!(exiting.function.log(), "PUPPET_INIT is not set well\n".repeat(2));

    let hanging = puppet(|config| {
        *config = config.clone().with("PUPPET_INIT", "hang");
        (config.init_timeout, config.timeout) =
            (Duration::from_millis(200), Duration::from_secs(1));
    });
    let after = Duration::from_secs(1);
    assert_eq!(hanging.play(json!({})).await, Err(InvokeError::Timeout { after }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_frozen_between_invocations() {
    let ticks = async |freeze| {
        let puppet = puppet(|config| config.freeze = freeze);
        let before = puppet.play(json!({})).await.unwrap()["ticks"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        puppet.play(json!({})).await.unwrap()["ticks"].as_u64().unwrap() - before
    };
    let (frozen, awake) = (ticks(true).await, ticks(false).await);
    // It runs for a moment before it is frozen, longer on a busy machine.
    assert!(frozen * 2 < awake, "{frozen} ticks frozen, {awake} awake");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_outlives_its_caller() {
    let puppet = puppet(|_| {});
    puppet.pid().await;
    let impatient = puppet.play(json!({ "sleep": 400 }));
    tokio::time::timeout(Duration::from_millis(200), impatient).await.unwrap_err();
    until("the end of the invocation", || puppet.function.reports().len() == 2).await;
    assert_eq!(puppet.function.reports()[1].error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_variables_need_new_processes() {
    let puppet = puppet(|_| {});
    let before = puppet.pid().await;
    puppet.function.update([("COLOUR".to_owned(), "red".to_owned())].into()).await;
    assert!(!lives(before));
    let answer = puppet.play(json!({})).await.unwrap();
    assert_eq!(answer["variables"]["COLOUR"], "red");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_contain_the_resources_of_an_invocation() {
    let puppet = puppet(|_| {});
    puppet.play(json!({})).await.unwrap();
    puppet.play(json!({ "spin": 60, "sleep": 100 })).await.unwrap();
    let report = &puppet.function.reports()[1];
    assert!(report.duration >= Duration::from_millis(160), "{report:?}");
    let cpu = report.cpu.unwrap();
    assert!(cpu >= Duration::from_millis(60) && cpu < report.duration, "{report:?}");
    assert!(report.max_memory_kib.unwrap() > 1_000, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_end_with_the_function() {
    let puppet = puppet(|_| {});
    let pid = puppet.pid().await;
    assert!(lives(pid));
    drop(puppet);
    until("the end of the process", || !lives(pid)).await;
}

#[test]
#[should_panic(expected = "Lambda reserves the variable AWS_REGION")]
fn reserved_variables_are_refused() {
    puppet(|config| *config = config.clone().with("AWS_REGION", "mars"));
}

#[test]
fn a_refusal_has_no_error_type() {
    let payload: Value = InvokeError::Throttled.payload("1");
    assert_eq!(payload["Reason"], "ReservedFunctionConcurrentInvocationLimitExceeded");
    assert!(payload.get("errorType").is_none());
}
