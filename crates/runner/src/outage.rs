//! Times in which no report arrived. The log tells of them afterwards: while one lasts, it is not
//! shipped either.

use canyon_api::client::ClientError;
use canyon_domain::causes::Causes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A shorter one is not worth a line.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// The last one that has ended, until the log has it.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Mutex<Option<String>>>);

impl Outages {
    /// The last one, said once.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The one that lasts, if one does.
#[derive(Debug, Default)]
pub struct Outage(Option<(Instant, String)>);

impl Outage {
    /// A report did not arrive because of `error`.
    pub fn lasts(&mut self, error: &ClientError) {
        let since = self.0.take().map_or_else(Instant::now, |(since, _)| since);
        self.0 = Some((since, Causes(error).to_string()));
    }

    /// A report arrived.
    pub fn ends(&mut self, outages: &Outages) {
        let Some((since, error)) = self.0.take() else { return };
        let lasted = since.elapsed();
        if lasted >= WORTH_A_LINE {
            let text = format!("no report reached Canyon for {} s: {error}", lasted.as_secs());
            *outages.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }
}
