//! "Something may have changed: look again."
//!
//! A request that waits (for an end, for the next line of a log) looks at the table, and looks
//! again after each hint or a pause. On a laptop every committed write is a hint; on Lambda, where
//! another function may have written, only the pause is left. A hint may be lost, which costs a moment and never an
//! answer. Requests that wait for a deployment are woken by its own writes alone, where these are told by name.

use crate::waits::{BRIEF, Wait, WaitOwner, Waits};
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

/// Hints that something was written. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Changes {
    sender: watch::Sender<u64>,
    pause: Duration,
    ends: Option<mpsc::Sender<Due>>,
    watched: Watched,
    /// Every write of a deployment is told by name.
    tells_deployments: bool,
    /// Other processes hold waiting requests too, each of which keeps one of them busy.
    shares_waits: bool,
    waits: Waits,
}

/// The most ends that wait for whoever clears away after them.
const MAX_ENDS: usize = 1_000;

/// Between two looks, however many hints come: a busy table must not be read in a tight loop.
const BREATH: Duration = Duration::from_millis(15);

/// Between two looks of a request that waits for a deployment whose writes are told by name.
const SELDOM: Duration = Duration::from_secs(10);

/// The most requests that wait, unless it is said.
const MOST_WAITS: usize = 1_000;

/// Waiting for a deployment, until this is dropped.
#[derive(Debug)]
pub(crate) struct DeploymentWait {
    topic: Arc<Topic>,
    hints: watch::Receiver<u64>,
    pause: Duration,
    is_hinted: bool,
    /// `None` if too many others wait.
    place: Option<Wait>,
}

impl Changes {
    /// Hints, with a look at least every `pause`.
    pub fn new(pause: Duration) -> Self {
        Self {
            sender: watch::Sender::new(0),
            pause,
            ends: None,
            watched: Watched::default(),
            tells_deployments: false,
            shares_waits: false,
            waits: Waits::new(MOST_WAITS),
        }
    }

    /// The same, and where it tells of each deployment that has ended. Without it nobody is told, as on
    /// Lambda, where the table's stream tells.
    pub fn telling_ends(self) -> (Self, mpsc::Receiver<Due>) {
        let (ends, told) = mpsc::channel(MAX_ENDS);
        (Self { ends: Some(ends), ..self }, told)
    }

    /// The same where every write request goes through [`Self::written`], because no other process writes.
    #[must_use]
    pub fn telling_deployments(self) -> Self {
        Self { tells_deployments: true, ..self }
    }

    /// The same where each request that waits keeps a whole function busy, so that waiting is counted in the table.
    #[must_use]
    pub fn sharing_waits(self) -> Self {
        Self { shares_waits: true, ..self }
    }

    pub(crate) fn shares_waits(&self) -> bool {
        self.shares_waits
    }

    /// The same with at most so many requests that wait at once, half of them of one caller, and half of all agents.
    /// Others are answered early.
    #[must_use]
    pub fn with_most_waits(self, most: usize) -> Self {
        Self { waits: Waits::new(most), ..self }
    }

    /// Says that the end of a deployment was written, which happens once. Where too many wait already it is
    /// dropped: then what its job left goes after a later end of its runner, or by a time to live of the job's own,
    /// which not every platform has.
    pub(crate) fn ended(&self, ended: Due) {
        if let Some(ends) = &self.ends
            && ends.try_send(ended).is_err()
        {
            tracing::debug!(deployment = %ended.id, "nobody is told of its end");
        }
    }

    /// Says that something was written.
    pub fn hint(&self) {
        self.sender.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Says what was written: a request to the table, which was carried out.
    pub fn written(&self, request: &[u8]) {
        self.hint();
        self.watched.written(request);
    }

    /// Says that something of a deployment was written that is not in the table.
    pub(crate) fn hint_of(&self, id: DeploymentId) {
        self.hint();
        self.watched.changed(id);
    }

    /// Whoever wants to be told of each hint itself, such as the launcher.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.sender.subscribe()
    }

    /// Waits for a deployment on behalf of a caller.
    pub(crate) fn wait_for(
        &self,
        by: &Principal,
        org: OrgUuid,
        id: DeploymentId,
    ) -> DeploymentWait {
        let topic = self.watched.topic(org, id);
        let (is_hinted, place) =
            (self.tells_deployments, self.waits.begin(WaitOwner::Principal(by.id)));
        let hints = topic.subscribe();
        let pause = if is_hinted { SELDOM } else { self.pause };
        DeploymentWait { topic, hints, pause, is_hinted, place }
    }

    /// Calls `look` until it finds something, or until `longest` has passed; then once more at the
    /// end.
    ///
    /// # Errors
    ///
    /// Whatever `look` fails with.
    pub(crate) async fn until<T, E, F>(
        &self,
        by: &Principal,
        longest: Duration,
        look: impl FnMut() -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<Option<T>, E>>,
    {
        let place = self.waits.begin(WaitOwner::Principal(by.id));
        let longest = bounded(longest, place.as_ref());
        until(self.subscribe(), self.pause, longest, look).await
    }
}

impl Changes {
    /// Calls `wait` with the time that it may take: `wanted`, or a short time if too many requests of agents wait.
    pub(crate) async fn with_agent_place<T>(
        &self,
        whose: WaitOwner,
        wanted: Duration,
        wait: impl AsyncFnOnce(Duration) -> T,
    ) -> T {
        let place = self.waits.begin_of_agent(whose);
        wait(bounded(wanted, place.as_ref())).await
    }
}

impl DeploymentWait {
    /// The deployment as it is now.
    pub(crate) async fn deployment(
        &self,
        table: &Table,
    ) -> Result<Option<Arc<Deployment>>, StoreError> {
        self.topic.deployment(table, self.is_hinted).await
    }

    /// As [`Changes::until`].
    pub(crate) async fn until<T, E, F>(
        &self,
        longest: Duration,
        look: impl FnMut() -> F,
    ) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<Option<T>, E>>,
    {
        let longest = bounded(longest, self.place.as_ref());
        until(self.hints.clone(), self.pause, longest, look).await
    }
}

/// The time of a wait that has found no place is short.
fn bounded(longest: Duration, place: Option<&Wait>) -> Duration {
    if place.is_some() { longest } else { longest.min(BRIEF) }
}

async fn until<T, E, F>(
    mut hints: watch::Receiver<u64>,
    pause: Duration,
    longest: Duration,
    mut look: impl FnMut() -> F,
) -> Result<Option<T>, E>
where
    F: Future<Output = Result<Option<T>, E>>,
{
    let end = Instant::now() + longest;
    loop {
        hints.mark_unchanged();
        // On the heap for as long as it looks: what only waits keeps little.
        if let Some(found) = Box::pin(look()).await? {
            return Ok(Some(found));
        }
        let now = Instant::now();
        if now >= end {
            return Ok(None);
        }
        let next_look = (now + pause).min(end);
        // The sender lives as long as the topic or `Changes`: waiting ends by a hint or by the time.
        let _ = tokio::time::timeout_at(next_look, hints.changed()).await;
        tokio::time::sleep(BREATH.min(end.saturating_duration_since(Instant::now()))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::ids::{DeploymentId, OrgUuid};
    use std::sync::atomic::{AtomicU32, Ordering};
    use uuid::Uuid;

    #[tokio::test(start_paused = true)]
    async fn a_waiter_looks_after_a_hint_and_gives_up_at_its_time() {
        let changes = Changes::new(Duration::from_mins(1));
        let looks = AtomicU32::new(0);
        let look = async || -> Result<Option<()>, ()> {
            Ok((looks.fetch_add(1, Ordering::Relaxed) == 1).then_some(()))
        };
        let hinting = changes.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            hinting.hint();
        });
        let (seconds, pause) = (Duration::from_secs(20), changes.pause);
        assert_eq!(until(changes.subscribe(), pause, seconds, look).await, Ok(Some(())));
        let never = async || Ok::<Option<()>, ()>(None);
        assert_eq!(until(changes.subscribe(), pause, seconds, never).await, Ok(None));
    }

    #[tokio::test]
    async fn ends_are_told_in_their_order_and_what_nobody_takes_holds_up_nobody() {
        let end = |number: u128| Due {
            org: OrgUuid(Uuid::from_u128(1)),
            id: DeploymentId(Uuid::from_u128(number)),
        };
        let (changes, mut told) = Changes::new(Duration::from_secs(1)).telling_ends();
        let count = MAX_ENDS as u128;
        (0..=count).for_each(|number| changes.clone().ended(end(number)));
        for number in 0..count {
            assert_eq!(told.try_recv().ok(), Some(end(number)));
        }
        assert!(told.try_recv().is_err(), "the last one found no room");
        drop(told);
        changes.ended(end(1));
        Changes::new(Duration::from_secs(1)).ended(end(1));
    }
}
