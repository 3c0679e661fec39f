//! The places for jobs that one agent has, together for all organizations that it serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Counts the taken places.
#[derive(Debug)]
pub(crate) struct Places {
    most: u32,
    taken: AtomicU32,
    freed: Notify,
}

impl Places {
    /// So many places, all free.
    pub(crate) fn new(most: u32) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicU32::default(), freed: Notify::new() })
    }

    /// The most jobs at once.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// How many are taken. More than there are, after a restart with fewer places than the agent has jobs.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many are free.
    pub(crate) fn free(&self) -> u32 {
        self.most.saturating_sub(self.taken())
    }

    /// Takes one, even if none is free: a job of an earlier session runs already.
    pub(crate) fn take(self: &Arc<Self>) -> Place {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Place(self.clone())
    }

    /// Completes when a place becomes free after this call.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

/// A taken place. It becomes free when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
        self.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_place_that_becomes_free_wakes_each_organization_that_waits_for_one() {
        let places = Places::new(2);
        let (first, second) = (places.take(), places.take());
        let beyond = places.take();
        assert_eq!((places.taken(), places.free()), (3, 0));
        drop(beyond);
        assert_eq!((places.taken(), places.free()), (2, 0));
        let waits = (places.freed(), places.freed());
        drop(first);
        assert_eq!((places.taken(), places.free()), (1, 1));
        let woken = async { tokio::join!(waits.0, waits.1) };
        tokio::time::timeout(Duration::from_secs(5), woken).await.unwrap();
        drop(second);
        assert_eq!(places.free(), places.most());
    }
}
