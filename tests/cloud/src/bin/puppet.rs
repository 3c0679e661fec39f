//! A function that does what its event says, for the tests of the runtime.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a function's output is its log")]

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static SERVED: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);

#[tokio::main]
async fn main() -> Result<(), Error> {
    match std::env::var("PUPPET_INIT").as_deref() {
        Ok("exit") => {
            eprintln!("PUPPET_INIT is not set well");
            std::process::exit(3);
        }
        Ok("hang") => tokio::time::sleep(Duration::from_hours(1)).await,
        _ => {}
    }
    println!("the puppet is ready");
    // Counts how long it was not frozen.
    tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            TICKS.fetch_add(1, Ordering::Relaxed);
        }
    });
    lambda_runtime::run(service_fn(play)).await
}

async fn play(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let LambdaEvent { payload, context } = event;
    // Behind API Gateway, the instructions are in the body.
    let body = payload["body"].as_str().and_then(|body| serde_json::from_str(body).ok());
    let orders: Value = body.unwrap_or_else(|| payload.clone());
    let number = |name: &str| orders[name].as_u64();
    SERVED.fetch_add(1, Ordering::Relaxed);
    if let Some(line) = orders["print"].as_str() {
        println!("{line}");
    }
    if let Some(milliseconds) = number("spin") {
        let end = cpu_time()? + Duration::from_millis(milliseconds);
        while cpu_time()? < end {}
    }
    if let Some(milliseconds) = number("sleep") {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
    if let Some(message) = orders["panic"].as_str() {
        panic!("{message}");
    }
    if let Some(message) = orders["fail"].as_str() {
        return Err(message.into());
    }
    if let Some(code) = orders["exit"].as_i64() {
        std::process::exit(i32::try_from(code)?);
    }
    if let Some(size) = number("big") {
        return Ok(Value::String("a".repeat(usize::try_from(size)?)));
    }
    if let Some(status) = number("echo") {
        let headers = json!({ "x-function": context.env_config.function_name });
        return Ok(
            json!({ "statusCode": status, "headers": headers, "body": payload.to_string() }),
        );
    }
    if let Some(answer) = orders.get("answer") {
        return Ok(answer.clone());
    }
    let variables: serde_json::Map<String, Value> =
        std::env::vars().map(|(name, value)| (name, value.into())).collect();
    Ok(json!({
        "event": payload,
        "pid": std::process::id(),
        "served": SERVED.load(Ordering::Relaxed),
        "ticks": TICKS.load(Ordering::Relaxed),
        "request_id": context.request_id,
        "deadline": context.deadline,
        "arn": context.invoked_function_arn,
        "trace": context.xray_trace_id,
        "variables": variables,
    }))
}

/// The processor time of this thread.
fn cpu_time() -> Result<Duration, Error> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = line.split_whitespace().next().ok_or("an empty schedstat")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}
