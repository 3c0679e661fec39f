//! The batches of writes: which one began last, and which ones the disk has. Also the removals of expired items.

use crate::recent_reads::{Changes, Moment};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Batches {
    /// The number of the batch that a thread began last.
    begun: AtomicU64,
    /// The number of the last batch that the disk has.
    durable: watch::Sender<u64>,
    removals: Removals,
}

/// Removals of expired items. They are no batches: they delete one item after another beside the writer.
#[derive(Debug, Default)]
struct Removals {
    in_progress: AtomicU64,
    begun: AtomicU64,
}

/// A removal of expired items, from before its first deletion until this is dropped.
pub(super) struct Removal<'a>(&'a Removals);

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Batches {
    pub(super) fn new() -> Self {
        let durable = watch::Sender::new(0);
        Self { begun: AtomicU64::new(0), durable, removals: Removals::default() }
    }

    /// The number of a new batch. Called before its first commit, so that a reader of this commit waits for the batch.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The disk has the batch `number`, and all before it.
    pub(super) fn became_durable(&self, number: u64) {
        self.durable.send_replace(number);
    }

    /// Called before the first deletion of a removal.
    pub(super) fn begin_removal(&self) -> Removal<'_> {
        // In this order, because `moment` loads them in the other one: a reader that loads the new number also finds the removal in progress.
        self.removals.in_progress.fetch_add(1, Ordering::AcqRel);
        self.removals.begun.fetch_add(1, Ordering::AcqRel);
        Removal(&self.removals)
    }

    /// Waits until the disk has everything that this process can read now: a power cut must not undo what Canyon has shown to
    /// a caller. Returns at once if no write is in progress.
    pub(super) async fn until_durable(&self) {
        let begun = self.begun.load(Ordering::Acquire);
        if *self.durable.borrow() >= begun {
            return;
        }
        // The sender lives as long as this value.
        let _ = self.durable.subscribe().wait_for(|batch| *batch >= begun).await;
    }
}

impl Changes for Batches {
    fn moment(&self) -> Option<Moment> {
        let batches = self.begun.load(Ordering::Acquire);
        let removals = self.removals.begun.load(Ordering::Acquire);
        let changes = *self.durable.borrow() < batches
            || self.removals.in_progress.load(Ordering::Acquire) > 0;
        (!changes).then_some(Moment { batches, removals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_moment_while_items_change_and_a_new_one_afterwards() {
        let batches = Batches::new();
        let first = batches.moment();
        assert!(first.is_some());

        let removal = batches.begin_removal();
        assert_eq!(batches.moment(), None);
        drop(removal);
        let second = batches.moment();
        assert!(second.is_some() && second != first, "{second:?}");

        let number = batches.begin();
        assert_eq!(batches.moment(), None);
        batches.became_durable(number);
        let third = batches.moment();
        assert!(third.is_some() && third != second, "{third:?}");
    }
}
