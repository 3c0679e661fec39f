//! Calls that may be repeated, until Canyon itself has answered.
//!
//! A connection that breaks and a gateway that answers in Canyon's place say nothing about the
//! request, so it is sent again. Only calls that change nothing the second time belong here.

use crate::output::Output;
use canyon_api::client::ClientError;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a call whose answer was lost is repeated.
const REPEATS: u32 = 5;
/// How long a lost connection is waited out: longer than a server takes to come back.
const OUTAGE: Duration = Duration::from_mins(2);
/// Between two tries of what is waited out.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks a few times, and says so; `again` says what it does. If nothing listens there at all, it does
/// not wait for that to come.
pub(crate) async fn insist<T>(
    output: Output,
    again: &str,
    call: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut repeats = 0;
    loop {
        let error = match call().await {
            Err(error) if error.is_retryable() && repeats < REPEATS => error,
            answer => return answer,
        };
        let is_absent =
            matches!(&error, ClientError::Unreachable { source, .. } if source.is_connect());
        if is_absent && repeats == 0 {
            return Err(error);
        }
        repeats += 1;
        output.notice(&format!("no answer ({error}); {again}"));
        sleep(Duration::from_millis(200 << repeats)).await;
    }
}

/// Asks for as long as a server may take to come back: for what belongs to a deployment that goes on
/// without its watcher.
pub(crate) async fn wait_out<T>(
    call: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut patience = Patience::default();
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                if let Some(error) = patience.after(error).await {
                    return Err(error);
                }
            }
        }
    }
}

/// How long Canyon has not answered.
#[derive(Default)]
pub(crate) struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Waits a little, or gives the error back when it is final or has lasted too long.
    pub(crate) async fn after(&mut self, error: ClientError) -> Option<ClientError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_retryable() || since.elapsed() > OUTAGE {
            return Some(error);
        }
        sleep(PAUSE).await;
        None
    }
}
