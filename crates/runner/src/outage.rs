//! Outages: periods in which no report arrived. The log can only report an outage afterwards, because
//! the log itself is shipped with the reports.

use canyon_api::client::ClientError;
use canyon_domain::causes::Causes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A shorter outage is not logged.
const MIN_LOGGED: Duration = Duration::from_secs(2);

/// The last outage that has ended, until it is in the log.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Mutex<Option<String>>>);

impl Outages {
    /// The text about the last outage, and forgets it.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The current outage, if there is one: since when, and the last error.
#[derive(Debug, Default)]
pub struct Outage(Option<(Instant, String)>);

impl Outage {
    /// Records that a report did not arrive because of `error`.
    pub fn lasts(&mut self, error: &ClientError) {
        let since = self.0.take().map_or_else(Instant::now, |(since, _)| since);
        self.0 = Some((since, Causes(error).to_string()));
    }

    /// Records that a report arrived.
    pub fn ends(&mut self, outages: &Outages) {
        let Some((since, error)) = self.0.take() else { return };
        let lasted = since.elapsed();
        if lasted >= MIN_LOGGED {
            let text = format!("no report reached Canyon for {} s: {error}", lasted.as_secs());
            *outages.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }
}
