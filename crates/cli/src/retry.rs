//! Retries idempotent calls until Canyon itself has answered.
//!
//! A broken connection, or a gateway that answers instead of Canyon, shows nothing about the outcome of
//! the request, so it is sent again. Use this only for calls that change nothing the second time.

use crate::output::Output;
use canyon_api::client::ClientError;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a call whose answer was lost is retried.
const MAX_RETRIES: u32 = 5;
/// How often a call is retried that others prevent. The pauses become longer, and are 15 s in all on average.
const MAX_CONTENDED: u64 = 15;
/// How long calls are retried during an outage: longer than a server takes to restart.
const MAX_OUTAGE: Duration = Duration::from_mins(2);
/// The pause between two tries during an outage.
const OUTAGE_PAUSE: Duration = Duration::from_millis(500);

/// Retries a few times, and reports each retry; `action` describes it. If nothing listens at the address
/// on the first try, returns the error at once.
pub(crate) async fn retry_call<T>(
    output: Output,
    action: &str,
    call: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut retries = 0;
    loop {
        let error = match call().await {
            Err(error) if error.is_retryable() && retries < MAX_RETRIES => error,
            answer => return answer,
        };
        let is_absent =
            matches!(&error, ClientError::Unreachable { source, .. } if source.is_connect());
        if is_absent && retries == 0 {
            return Err(error);
        }
        retries += 1;
        output.notice(&format!("no answer ({error}); {action}"));
        sleep(Duration::from_millis(200 << retries)).await;
    }
}

/// Retries while other callers change the same thing. The call must be idempotent.
pub(crate) async fn retry_contended<T>(
    call: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut retries = 0;
    loop {
        match call().await {
            Err(error) if error.code() == Some("contended") && retries < MAX_CONTENDED => {}
            answer => return answer,
        }
        retries += 1;
        // Each caller waits for a time of its own, so that they do not meet again.
        let random = u64::from(uuid::Uuid::new_v4().as_bytes()[0]);
        sleep(Duration::from_millis(random * retries)).await;
    }
}

/// Retries for as long as a server may take to restart: for calls about a deployment, which continues
/// without this process.
pub(crate) async fn retry_through_outage<T>(
    call: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut outage = OutageTimer::default();
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                if let Some(error) = outage.pause_or_fail(error).await {
                    return Err(error);
                }
            }
        }
    }
}

/// Measures how long Canyon has not answered.
#[derive(Default)]
pub(crate) struct OutageTimer {
    since: Option<Instant>,
}

impl OutageTimer {
    /// Pauses before the next try; returns the error if it is permanent or the outage has lasted too long.
    pub(crate) async fn pause_or_fail(&mut self, error: ClientError) -> Option<ClientError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_retryable() || since.elapsed() > MAX_OUTAGE {
            return Some(error);
        }
        sleep(OUTAGE_PAUSE).await;
        None
    }
}
