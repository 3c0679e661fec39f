//! Asynchronous invocations: Lambda queues the event, and retries failures.
//! <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>

use super::function::Function;
use super::invocation::{ASYNCHRONOUS_LIMIT, InvokeError, InvokeResult};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// How asynchronous invocations are retried (`EventInvokeConfig`).
#[derive(Clone, Copy, Debug)]
pub struct AsyncConfig {
    /// `MaximumRetryAttempts`, 2 by default.
    pub maximum_retry_attempts: u32,
    /// `MaximumEventAge`, 6 hours by default.
    pub maximum_event_age: Duration,
    /// How much faster than real time the queue's clock runs: waits and the age are divided by it.
    pub time_scale: u32,
}

impl Default for AsyncConfig {
    fn default() -> Self {
        Self {
            maximum_retry_attempts: 2,
            maximum_event_age: Duration::from_hours(6),
            time_scale: 1,
        }
    }
}

impl AsyncConfig {
    fn scaled(&self, duration: Duration) -> Duration {
        duration / self.time_scale.max(1)
    }

    /// "with a one-minute wait between the first two attempts, and two minutes between the second
    /// and third attempts"
    fn wait_after_failure(&self, failures: u32) -> Duration {
        self.scaled(Duration::from_mins(failures.into()))
    }

    /// "The retry interval increases exponentially from 1 second after the first attempt to a
    /// maximum of 5 minutes."
    fn wait_after_throttle(&self, throttles: u32) -> Duration {
        let exponential = Duration::from_secs(1 << throttles.saturating_sub(1).min(10));
        self.scaled(exponential.min(Duration::from_mins(5)))
    }
}

/// Why Lambda gave up an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The function failed on each attempt.
    RetriesExhausted,
    /// It became too old first.
    EventAgeExceeded,
}

/// An event that Lambda gave up, for the on-failure destination.
#[derive(Clone, Debug)]
pub struct FailedEvent {
    /// The request id of all its attempts.
    pub request_id: String,
    /// The ARN of the function.
    pub function_arn: String,
    /// The event.
    pub payload: Bytes,
    /// Why Lambda gave it up.
    pub condition: Condition,
    /// How many attempts the function got.
    pub attempts: u32,
    /// The last failure.
    pub error: InvokeError,
}

impl FailedEvent {
    /// The invocation record for destinations.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>
    pub fn record(&self) -> Value {
        let condition = match self.condition {
            Condition::RetriesExhausted => "RetriesExhausted",
            Condition::EventAgeExceeded => "EventAgeExceeded",
        };
        let payload: Value = serde_json::from_slice(&self.payload).unwrap_or_default();
        let mut record = json!({
            "version": "1.0",
            "timestamp": jiff::Timestamp::now().to_string(),
            "requestContext": {
                "requestId": self.request_id,
                "functionArn": format!("{}:$LATEST", self.function_arn),
                "condition": condition,
                "approximateInvokeCount": self.attempts,
            },
            "requestPayload": payload,
        });
        if self.error.is_function_error() {
            record["responseContext"] = json!({
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": "Unhandled",
            });
            record["responsePayload"] = self.error.payload(&self.request_id);
        }
        record
    }
}

type Hook = Arc<dyn Fn(FailedEvent) + Send + Sync>;

/// The number of queued and running events.
pub(super) struct Queue {
    count: watch::Sender<usize>,
    on_failure: Mutex<Option<Hook>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { count: watch::Sender::new(0), on_failure: Mutex::default() }
    }
}

impl Function {
    /// Queues an event (`Event`), and returns its request id.
    ///
    /// # Errors
    /// If the event is larger than Lambda accepts.
    pub fn invoke_async(&self, payload: impl Into<Bytes>) -> Result<String, InvokeError> {
        let payload = payload.into();
        if payload.len() > ASYNCHRONOUS_LIMIT {
            return Err(InvokeError::RequestEntityTooLarge { limit: ASYNCHRONOUS_LIMIT });
        }
        let request_id = Uuid::new_v4().to_string();
        tokio::spawn(process(Queued::new(self.clone()), request_id.clone(), payload));
        Ok(request_id)
    }

    /// Sets the hook for events that Lambda gives up.
    pub fn on_failure<Hook>(&self, hook: Hook)
    where
        Hook: Fn(FailedEvent) + Send + Sync + 'static,
    {
        let on_failure = self.inner().queue.on_failure.lock();
        *on_failure.unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// Waits until no asynchronous event is queued or running.
    pub async fn settled(&self) {
        let mut count = self.inner().queue.count.subscribe();
        // The sender lives as long as `self`.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

/// An event in the queue, as long as this value lives.
struct Queued {
    function: Function,
}

impl Queued {
    fn new(function: Function) -> Self {
        function.inner().queue.count.send_modify(|count| *count += 1);
        Self { function }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.function.inner().queue.count.send_modify(|count| *count -= 1);
    }
}

async fn process(queued: Queued, request_id: String, payload: Bytes) {
    let function = &queued.function;
    let failed = attempts(function, &request_id, &payload).await;
    if let Some((condition, attempts, error)) = failed {
        let hook = function.inner().queue.on_failure.lock();
        let hook = hook.unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            let function_arn = function.arn();
            hook(FailedEvent { request_id, function_arn, payload, condition, attempts, error });
        }
    }
}

/// Runs the event until it succeeds or is given up; then returns why, and after how many attempts.
async fn attempts(
    function: &Function,
    request_id: &str,
    payload: &Bytes,
) -> Option<(Condition, u32, InvokeError)> {
    let config = function.inner().config.asynchronous;
    let end = Instant::now() + config.scaled(config.maximum_event_age);
    let (mut failures, mut throttles) = (0, 0);
    loop {
        let result: InvokeResult = function.attempt(request_id.to_owned(), payload.clone()).await;
        let Err(error) = result else { return None };
        let wait = if error.is_function_error() {
            failures += 1;
            if failures > config.maximum_retry_attempts {
                return Some((Condition::RetriesExhausted, failures, error));
            }
            config.wait_after_failure(failures)
        } else {
            throttles += 1;
            config.wait_after_throttle(throttles)
        };
        if Instant::now() + wait > end {
            return Some((Condition::EventAgeExceeded, failures, error));
        }
        sleep(wait).await;
    }
}
