//! The items that were read since the last write: the next read of one does not ask the table.
//!
//! Only the embedded table keeps them, because only there all writes pass through this process.

use crate::conditional::Item;
use crate::item_size;
use crate::keys::Key;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of items.
const MAX_COUNT: usize = 256;
/// The maximum size of an item in bytes. Larger ones are few, and most time goes into parsing them.
const MAX_SIZE: usize = 4 * 1024;

/// Between two equal moments, no item of the table has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The number of batches of writes that have begun.
    pub(crate) batches: u64,
    /// The number of removals of expired items that have begun.
    pub(crate) removals: u64,
}

/// Knows when the table changes.
pub(crate) trait Changes: fmt::Debug + Send + Sync {
    /// The present moment. `None` while a write is in progress or not durable yet, or while expired items are removed.
    fn moment(&self) -> Option<Moment>;
}

/// Clones share the items.
#[derive(Clone)]
pub(crate) struct RecentReads {
    changes: Arc<dyn Changes>,
    kept: Arc<Mutex<Kept>>,
}

/// What was read at one moment. `None`: there is no item at that key.
#[derive(Default)]
struct Kept {
    moment: Moment,
    items: HashMap<Key, Option<Arc<Item>>>,
}

impl RecentReads {
    #[cfg(feature = "embedded")]
    pub(crate) fn new(changes: Arc<dyn Changes>) -> Self {
        Self { changes, kept: Arc::default() }
    }

    /// The item at `key`, if it was read since the last change of the table; otherwise the result of `read`. In both cases it is as
    /// it was at some time during this call, like an item that is read consistently.
    pub(crate) async fn or_read<E>(
        &self,
        key: &Key,
        read: impl AsyncFnOnce() -> Result<Option<Item>, E>,
    ) -> Result<Option<Item>, E> {
        // What is kept is found without waiting, so without this a long series of reads would monopolize its thread.
        tokio::task::consume_budget().await;
        let Some(moment) = self.changes.moment() else { return read().await };
        let kept = self.of(moment).items.get(key).cloned();
        if let Some(item) = kept {
            return Ok(item.map(|item| Item::clone(&item)));
        }
        let item = read().await?;
        // A write that has begun since has changed the moment, so later callers do not find this item.
        self.keep(moment, key, item.as_ref());
        Ok(item)
    }

    fn keep(&self, moment: Moment, key: &Key, item: Option<&Item>) {
        if item.is_some_and(|item| item_size::of(item) > MAX_SIZE) {
            return;
        }
        let item = item.cloned().map(Arc::new);
        let mut kept = self.of(moment);
        if kept.items.len() >= MAX_COUNT {
            kept.items.clear();
        }
        kept.items.insert(key.clone(), item);
    }

    /// What is kept of `moment`. All items of another moment are dropped, even if it is a later one: a slow reader costs others a
    /// request, and no caller gets an old item.
    fn of(&self, moment: Moment) -> MutexGuard<'_, Kept> {
        // Each item is kept or dropped as a whole, so those of a poisoned mutex are valid.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.moment != moment {
            kept.items.clear();
            kept.moment = moment;
        }
        kept
    }
}

impl fmt::Debug for RecentReads {
    /// Without the items: some are secrets, though sealed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentReads").field("changes", &self.changes).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(feature = "embedded")]
#[path = "recent_reads_tests.rs"]
mod tests;
