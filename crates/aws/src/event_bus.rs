//! Canyon's bus on EventBridge.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::error::DisplayErrorContext;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use canyon_domain::events::{DeploymentEvent, REJECTED, Rejected, SOURCE};
use serde::Serialize;

/// The most entries of one request (EventBridge API reference, `PutEvents`).
const MAX_ENTRIES: usize = 10;

/// The bus. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventBus {
    client: Client,
    name: String,
}

/// Events were not taken, or not all of them. Whoever has them sends them again.
#[derive(Debug, thiserror::Error)]
#[error("event bus `{bus}` did not take {untaken} of {sent} events: {reason}")]
pub struct PublishError {
    bus: String,
    untaken: usize,
    sent: usize,
    reason: String,
}

impl EventBus {
    /// The bus `name`, which may be an ARN.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self { client, name: name.into() }
    }

    /// Publishes what happened to deployments.
    ///
    /// # Errors
    ///
    /// [`PublishError`] if any of them was not taken; the others were.
    pub async fn deployments(&self, events: &[DeploymentEvent]) -> Result<(), PublishError> {
        let entries =
            events.iter().map(|event| self.entry(&event.detail_type(), event)).collect::<Vec<_>>();
        self.put(&entries).await
    }

    /// Publishes that a request was refused.
    ///
    /// # Errors
    ///
    /// [`PublishError`] if it was not taken.
    pub async fn rejected(&self, event: &Rejected) -> Result<(), PublishError> {
        self.put(&[self.entry(REJECTED, event)]).await
    }

    fn entry(&self, detail_type: &str, detail: &impl Serialize) -> PutEventsRequestEntry {
        // Both kinds are structs of texts and numbers: they have a JSON form.
        let detail = serde_json::to_string(detail).unwrap_or_default();
        PutEventsRequestEntry::builder()
            .event_bus_name(&self.name)
            .source(SOURCE)
            .detail_type(detail_type)
            .detail(detail)
            .build()
    }

    /// A request may be taken in part: the answer tells which entries were not.
    async fn put(&self, entries: &[PutEventsRequestEntry]) -> Result<(), PublishError> {
        let failed = |untaken, reason| PublishError {
            bus: self.name.clone(),
            untaken,
            sent: entries.len(),
            reason,
        };
        for part in entries.chunks(MAX_ENTRIES) {
            let request = self.client.put_events().set_entries(Some(part.to_vec()));
            let answer = request.send().await;
            let answer = answer
                .map_err(|error| failed(part.len(), DisplayErrorContext(error).to_string()))?;
            let refused: Vec<_> =
                answer.entries().iter().filter_map(|entry| entry.error_code()).collect();
            if answer.failed_entry_count() > 0 {
                return Err(failed(refused.len().max(1), refused.join(", ")));
            }
        }
        Ok(())
    }
}
