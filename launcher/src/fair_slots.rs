//! Slots for concurrent reconciliations, shared fairly between organizations.
//!
//! An organization gets a slot only while it holds fewer than are free. So a single organization
//! gets half of the slots, two get a third each, and a slot is always free for the next
//! organization, even if the others never release theirs (A. Choudhury, E. Hahne, "Dynamic Queue
//! Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2),
//! 1998).

use canyon_domain::ids::OrgUuid;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The pool of slots. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FairSlots(Arc<Mutex<State>>);

struct State {
    free: usize,
    held: HashMap<OrgUuid, usize>,
    waiting: HashMap<OrgUuid, VecDeque<Waiter>>,
    /// The number of the next waiter.
    next: u64,
}

struct Waiter {
    number: u64,
    slot: oneshot::Sender<FairSlot>,
}

/// A slot; dropping it releases it.
pub(crate) struct FairSlot {
    org: OrgUuid,
    of: FairSlots,
}

impl FairSlots {
    pub(crate) fn new(count: usize) -> Self {
        let (held, waiting) = (HashMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(State { free: count, held, waiting, next: 0 })))
    }

    /// Waits for a slot for the organization.
    pub(crate) async fn take(&self, org: OrgUuid) -> FairSlot {
        let (slot, given) = oneshot::channel();
        self.state().join(org, slot);
        self.give();
        match given.await {
            Ok(slot) => slot,
            // The pool drops a waiter only when it is dropped itself, and `self` keeps it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives free slots to waiters, as far as the rule allows.
    fn give(&self) {
        loop {
            let next = self.state().next();
            let Some((org, waiter)) = next else { return };
            // Send without the lock: if the waiter has just gone, its slot is dropped, which takes the lock.
            let _ = waiter.slot.send(FairSlot { org, of: self.clone() });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn join(&mut self, org: OrgUuid, slot: oneshot::Sender<FairSlot>) {
        let number = self.next;
        self.next += 1;
        self.waiting.entry(org).or_default().push_back(Waiter { number, slot });
    }

    /// Takes a slot for the organization that holds the fewest; among equals, for the one that has
    /// waited longest.
    fn next(&mut self) -> Option<(OrgUuid, Waiter)> {
        let (held, free) = (&self.held, self.free);
        let held_by = |org: &OrgUuid| held.get(org).copied().unwrap_or(0);
        self.waiting.retain(|_, waiters| {
            while waiters.front().is_some_and(|waiter| waiter.slot.is_closed()) {
                waiters.pop_front();
            }
            !waiters.is_empty()
        });
        let first = |waiters: &VecDeque<Waiter>| waiters.front().map(|waiter| waiter.number);
        let fewest = self.waiting.iter().min_by_key(|(org, all)| (held_by(org), first(all)));
        let org = fewest.map(|(org, _)| *org).filter(|org| held_by(org) < free)?;
        let waiter = self.waiting.get_mut(&org)?.pop_front()?;
        self.free -= 1;
        *self.held.entry(org).or_default() += 1;
        Some((org, waiter))
    }

    fn leave(&mut self, org: OrgUuid) {
        self.free += 1;
        let left = self.held.get(&org).map_or(0, |held| held.saturating_sub(1));
        if left == 0 {
            self.held.remove(&org);
        } else {
            self.held.insert(org, left);
        }
    }
}

impl Drop for FairSlot {
    fn drop(&mut self) {
        self.of.state().leave(self.org);
        self.of.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;
    use uuid::Uuid;

    fn org(number: u128) -> OrgUuid {
        OrgUuid(Uuid::from_u128(number))
    }

    /// As many slots as the organization gets now.
    async fn take_all(slots: &FairSlots, org: OrgUuid) -> Vec<FairSlot> {
        let mut taken = Vec::new();
        loop {
            let mut wanted = Box::pin(slots.take(org));
            match std::future::poll_fn(|context| Poll::Ready(wanted.as_mut().poll(context))).await {
                Poll::Ready(slot) => taken.push(slot),
                Poll::Pending => return taken,
            }
        }
    }

    #[tokio::test]
    async fn another_organization_finds_a_slot_however_many_the_others_keep() {
        let slots = FairSlots::new(64);
        let mut kept = Vec::new();
        let mut sizes = Vec::new();
        for number in 0..6 {
            let taken = take_all(&slots, org(number)).await;
            sizes.push(taken.len());
            kept.push(taken);
        }
        assert_eq!(sizes, [32, 16, 8, 4, 2, 1]);
        // Released slots go to the organization that holds the fewest, not to the one with the most waiters.
        let greedy: Vec<_> = (0..100).map(|_| Box::pin(slots.take(org(0)))).collect();
        kept.remove(0);
        assert_eq!(take_all(&slots, org(6)).await.len(), 17);
        drop(greedy);
        drop(kept);
        assert_eq!(take_all(&slots, org(0)).await.len(), 32);
    }

    #[tokio::test]
    async fn a_slot_goes_to_the_longest_waiter_and_skips_cancelled_ones() {
        let slots = FairSlots::new(1);
        let held = slots.take(org(0)).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 1..5 {
            let (slots, order) = (slots.clone(), order.clone());
            waiting.push(tokio::spawn(async move {
                let _slot = slots.take(org(number)).await;
                order.lock().unwrap().push(number);
            }));
            tokio::task::yield_now().await;
        }
        waiting.remove(1).abort();
        tokio::task::yield_now().await;
        drop(held);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [1, 3, 4]);
    }
}
