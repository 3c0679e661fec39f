//! Canyon's event bus on EventBridge.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::error::DisplayErrorContext;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use canyon_domain::events::{DeploymentEvent, REJECTED, Rejected, SOURCE};
use canyon_domain::schedule::announcement::{DESTROY_ANNOUNCED, DestroyAnnounced};
use canyon_domain::to_json::to_json_text;
use serde::Serialize;

/// Most entries of one request (EventBridge API reference, `PutEvents`).
const MAX_ENTRIES: usize = 10;

/// The bus. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventBus {
    client: Client,
    name: String,
}

/// EventBridge rejected events. The caller must send all events of the call again; ids make that
/// idempotent.
#[derive(Debug, thiserror::Error)]
#[error("event bus `{bus}` rejected {rejected} of {sent} events: {reason}")]
pub struct PublishError {
    bus: String,
    rejected: usize,
    sent: usize,
    reason: String,
}

impl EventBus {
    /// The bus `name`, which may be an ARN.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self { client, name: name.into() }
    }

    /// Publishes events of deployments.
    ///
    /// # Errors
    ///
    /// [`PublishError`] if EventBridge rejected any of them; it accepted the others.
    pub async fn deployments(&self, events: &[DeploymentEvent]) -> Result<(), PublishError> {
        let entries =
            events.iter().map(|event| self.entry(&event.detail_type(), event)).collect::<Vec<_>>();
        self.put(&entries).await
    }

    /// Publishes that a deploy request was rejected.
    ///
    /// # Errors
    ///
    /// [`PublishError`] if EventBridge rejected it.
    pub async fn rejected(&self, event: &Rejected) -> Result<(), PublishError> {
        self.put(&[self.entry(REJECTED, event)]).await
    }

    /// Publishes that a schedule will destroy what is deployed to an environment.
    ///
    /// # Errors
    ///
    /// [`PublishError`] if EventBridge rejected it.
    pub async fn destroy_announced(&self, event: &DestroyAnnounced) -> Result<(), PublishError> {
        self.put(&[self.entry(DESTROY_ANNOUNCED, event)]).await
    }

    fn entry(&self, detail_type: &str, detail: &impl Serialize) -> PutEventsRequestEntry {
        PutEventsRequestEntry::builder()
            .event_bus_name(&self.name)
            .source(SOURCE)
            .detail_type(detail_type)
            .detail(to_json_text(detail))
            .build()
    }

    /// Sends all entries. EventBridge may accept a part of a request: the answer marks the rejected
    /// entries.
    async fn put(&self, entries: &[PutEventsRequestEntry]) -> Result<(), PublishError> {
        let failed = |rejected_count, reason| PublishError {
            bus: self.name.clone(),
            rejected: rejected_count,
            sent: entries.len(),
            reason,
        };
        for part in entries.chunks(MAX_ENTRIES) {
            let request = self.client.put_events().set_entries(Some(part.to_vec()));
            let answer = request.send().await;
            let answer = answer
                .map_err(|error| failed(part.len(), DisplayErrorContext(error).to_string()))?;
            let codes: Vec<_> =
                answer.entries().iter().filter_map(|entry| entry.error_code()).collect();
            if answer.failed_entry_count() > 0 {
                return Err(failed(codes.len().max(1), codes.join(", ")));
            }
        }
        Ok(())
    }
}
