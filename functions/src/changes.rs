//! Hints that the table may have changed.
//!
//! A request that waits (for an end, for the next line of a log) reads the table, and reads again after each hint or
//! after a pause. On a laptop every committed write is a hint. On Lambda, where another function may have written,
//! only the pause remains. A hint may be lost, which delays an answer and never prevents it. If writes are announced
//! with their deployment, only these writes wake the requests that wait for it.

use crate::waits::{SHORT_WAIT, Wait, WaitOwner, Waits};
use crate::watched::{Topic, Watched};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::principal::Principal;
use canyon_store::deployment_lists::Due;
use canyon_store::{StoreError, Table};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Hints about writes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Changes {
    sender: watch::Sender<u64>,
    pause: Duration,
    ends: Option<mpsc::Sender<(Due, Deployment)>>,
    watched: Watched,
    /// Whether every write of a deployment is announced with the deployment.
    announces_deployments: bool,
    /// Whether each waiting request occupies a whole process, so that waits are counted in the table.
    shares_waits: bool,
    waits: Waits,
}

/// The most ended deployments that wait for their cleanup.
const MAX_ENDS: usize = 1_000;

/// The shortest interval between two reads, however many hints come: a busy table must not be read in a tight loop.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(15);

/// The interval between two reads for a request that waits for a deployment whose writes are announced.
const ANNOUNCED_READ_INTERVAL: Duration = Duration::from_secs(10);

/// The default of the most waiting requests.
const MAX_WAITS: usize = 1_000;

/// A request that waits for a deployment. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct DeploymentWait {
    topic: Arc<Topic>,
    hints: watch::Receiver<u64>,
    pause: Duration,
    is_hinted: bool,
    /// `None` if too many other requests wait.
    slot: Option<Wait>,
}

impl Changes {
    /// Hints, with a read at least every `pause`.
    pub fn new(pause: Duration) -> Self {
        Self {
            sender: watch::Sender::new(0),
            pause,
            ends: None,
            watched: Watched::default(),
            announces_deployments: false,
            shares_waits: false,
            waits: Waits::new(MAX_WAITS),
        }
    }

    /// Also sends each ended deployment, as its end has left it, to the returned receiver. Without it, no end is sent:
    /// on Lambda the table's stream announces the ends.
    pub fn with_published_ends(self) -> (Self, mpsc::Receiver<(Due, Deployment)>) {
        let (ends, ended) = mpsc::channel(MAX_ENDS);
        (Self { ends: Some(ends), ..self }, ended)
    }

    /// For a process that makes all writes itself: every write request goes through [`Self::written`].
    #[must_use]
    pub fn with_deployment_events(self) -> Self {
        Self { announces_deployments: true, ..self }
    }

    /// For an API where each waiting request occupies a whole function, so that waits are counted in the table.
    #[must_use]
    pub fn sharing_waits(self) -> Self {
        Self { shares_waits: true, ..self }
    }

    pub(crate) fn shares_waits(&self) -> bool {
        self.shares_waits
    }

    /// Limits the waiting requests to `max`, half of them for one caller and half for all agents. Further requests are
    /// answered early.
    #[must_use]
    pub fn with_max_waits(self, max: usize) -> Self {
        Self { waits: Waits::new(max), ..self }
    }

    /// Sends an ended deployment to the cleanup, once. If the channel is full, the end is dropped: then the job's
    /// objects are removed after a later end of the same runner, or by the job's own time to live, which not every
    /// platform has.
    pub(crate) fn ended(&self, org: OrgUuid, ended: &Deployment) {
        let Some(ends) = &self.ends else { return };
        let due = Due { org, id: ended.id };
        if ends.try_send((due, ended.clone())).is_err() {
            tracing::debug!(deployment = %ended.id, "the channel of ended deployments is full");
        }
    }

    /// Announces that something was written.
    pub fn hint(&self) {
        self.sender.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Announces a completed write request to the table.
    pub fn written(&self, request: &[u8]) {
        self.hint();
        self.watched.written(request);
    }

    /// Announces a write for a deployment outside the table.
    pub(crate) fn hint_of(&self, id: DeploymentId) {
        self.hint();
        self.watched.changed(id);
    }

    /// A receiver of every hint.
    fn subscribe(&self) -> watch::Receiver<u64> {
        self.sender.subscribe()
    }

    /// Begins a wait for a deployment on behalf of a caller.
    pub(crate) fn wait_for(
        &self,
        by: &Principal,
        org: OrgUuid,
        id: DeploymentId,
    ) -> DeploymentWait {
        let topic = self.watched.topic(org, id);
        let (is_hinted, slot) =
            (self.announces_deployments, self.waits.begin(WaitOwner::Principal(by.id)));
        let hints = topic.subscribe();
        let pause = if is_hinted { ANNOUNCED_READ_INTERVAL } else { self.pause };
        DeploymentWait { topic, hints, pause, is_hinted, slot }
    }

    /// Calls `read` until it returns a result, or until `longest` has passed; then once more.
    ///
    /// # Errors
    ///
    /// The errors of `read`.
    pub(crate) async fn until<T, E, F>(
        &self,
        by: &Principal,
        longest: Duration,
        read: impl FnMut() -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<Option<T>, E>>,
    {
        let slot = self.waits.begin(WaitOwner::Principal(by.id));
        let longest = bounded(longest, slot.as_ref());
        until(self.subscribe(), self.pause, longest, read).await
    }
}

impl Changes {
    /// Calls `wait` with its time limit: `wanted`, or a short time if too many requests of agents wait.
    pub(crate) async fn with_agent_slot<T>(
        &self,
        whose: WaitOwner,
        wanted: Duration,
        wait: impl AsyncFnOnce(Duration) -> T,
    ) -> T {
        let slot = self.waits.begin_of_agent(whose);
        wait(bounded(wanted, slot.as_ref())).await
    }
}

impl DeploymentWait {
    /// The current deployment.
    pub(crate) async fn deployment(
        &self,
        table: &Table,
    ) -> Result<Option<Arc<Deployment>>, StoreError> {
        self.topic.deployment(table, self.is_hinted).await
    }

    /// Calls `read` as [`Changes::until`] does.
    pub(crate) async fn until<T, E, F>(
        &self,
        longest: Duration,
        read: impl FnMut() -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<Option<T>, E>>,
    {
        let longest = bounded(longest, self.slot.as_ref());
        until(self.hints.clone(), self.pause, longest, read).await
    }
}

/// The time limit of a wait. It is short for a request without a slot.
fn bounded(longest: Duration, slot: Option<&Wait>) -> Duration {
    if slot.is_some() { longest } else { longest.min(SHORT_WAIT) }
}

async fn until<T, E, F>(
    mut hints: watch::Receiver<u64>,
    pause: Duration,
    longest: Duration,
    mut read: impl FnMut() -> F,
) -> Result<Option<T>, E>
where
    F: Future<Output = Result<Option<T>, E>>,
{
    let end = Instant::now() + longest;
    loop {
        hints.mark_unchanged();
        // Boxed only during the read, so that a waiting request uses little memory.
        if let Some(found) = Box::pin(read()).await? {
            return Ok(Some(found));
        }
        let now = Instant::now();
        if now >= end {
            return Ok(None);
        }
        let next_read = (now + pause).min(end);
        // The sender lives as long as the topic or `Changes`: the wait ends by a hint or by the timeout.
        let _ = tokio::time::timeout_at(next_read, hints.changed()).await;
        tokio::time::sleep(MIN_READ_INTERVAL.min(end.saturating_duration_since(Instant::now())))
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::atomic::{AtomicU32, Ordering};
    use uuid::Uuid;

    #[tokio::test(start_paused = true)]
    async fn a_waiter_reads_after_a_hint_and_stops_at_its_time_limit() {
        let changes = Changes::new(Duration::from_mins(1));
        let reads = AtomicU32::new(0);
        let read = async || -> Result<Option<()>, ()> {
            Ok((reads.fetch_add(1, Ordering::Relaxed) == 1).then_some(()))
        };
        let hinting = changes.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            hinting.hint();
        });
        let (seconds, pause) = (Duration::from_secs(20), changes.pause);
        assert_eq!(until(changes.subscribe(), pause, seconds, read).await, Ok(Some(())));
        let never = async || Ok::<Option<()>, ()>(None);
        assert_eq!(until(changes.subscribe(), pause, seconds, never).await, Ok(None));
    }

    #[tokio::test]
    async fn ends_are_sent_in_order_and_a_full_channel_blocks_no_sender() {
        let org = OrgUuid(Uuid::from_u128(1));
        let end = |number: u128| -> Deployment {
            serde_json::from_value(json!({
                "id": Uuid::from_u128(number), "project": "shop", "env": "prod", "env_uuid": Uuid::nil(),
                "runner": "here", "mode": "deploy", "created_at": "2026-01-01T00:00:00Z", "created_by": Uuid::nil(),
                "status": "succeeded", "version": 1,
            }))
            .unwrap()
        };
        let (changes, mut ended) = Changes::new(Duration::from_secs(1)).with_published_ends();
        let count = MAX_ENDS as u128;
        (0..=count).for_each(|number| changes.clone().ended(org, &end(number)));
        for number in 0..count {
            let due = Due { org, id: DeploymentId(Uuid::from_u128(number)) };
            assert_eq!(ended.try_recv().ok(), Some((due, end(number))));
        }
        assert!(ended.try_recv().is_err(), "the last one found no room");
        drop(ended);
        changes.ended(org, &end(1));
        Changes::new(Duration::from_secs(1)).ended(org, &end(1));
    }
}
