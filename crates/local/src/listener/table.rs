//! The open connections, and the choice of one to close for a new one.

use super::connection::Limited;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a request since this time.
    Idle(Instant),
    /// It receives the head of a request since this time.
    Head(Instant),
    /// It receives the body of a request; the last part came at this time.
    Body(Instant),
    /// A request is being answered.
    Answer,
    /// The peer does not read the answer.
    Blocked {
        /// Since this time.
        since: Instant,
        /// Whether the rest of the answer is only in buffers.
        is_whole: bool,
    },
}

impl Phase {
    /// Since when the connection waits for its peer; `None` if it does not wait.
    fn waits_since(self) -> Option<Instant> {
        match self {
            Self::Idle(since)
            | Self::Head(since)
            | Self::Body(since)
            | Self::Blocked { since, .. } => Some(since),
            Self::Answer => None,
        }
    }

    /// When the connection is closed if the peer does nothing.
    pub(super) fn deadline(self, limits: &Limited) -> Option<Instant> {
        match self {
            Self::Idle(since) => Some(since + limits.idle),
            Self::Head(since) => Some(since + limits.head),
            Self::Blocked { since, .. } => Some(since + limits.stall),
            // The router has its own limits for bodies and answers.
            Self::Body(_) | Self::Answer => None,
        }
    }
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct State {
    source: IpAddr,
    phase: Mutex<Phase>,
    evicted: Mutex<bool>,
    /// Notified when the connection's task must check the state.
    changed: Notify,
}

impl State {
    pub(super) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_one();
    }

    /// Sets the phase that `next` returns for the present one, if it returns any.
    pub(super) fn advance(&self, next: impl FnOnce(Phase) -> Option<Phase>) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = next(*phase) {
            *phase = next;
            drop(phase);
            self.changed.notify_one();
        }
    }

    pub(super) fn is_evicted(&self) -> bool {
        *self.evicted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn evict(&self) {
        *self.evicted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Table {
    most: usize,
    states: Mutex<Vec<Arc<State>>>,
}

/// The slot of a connection; it is free again when this value is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: Arc<State>,
    table: Arc<Table>,
}

/// Whether there was a slot for a new connection.
pub(super) enum Admission {
    /// A slot was free.
    Free(Slot),
    /// A waiting connection from this address was closed for the new one.
    Replaced(Slot, IpAddr),
    /// All connections are being answered.
    Full,
}

impl Table {
    pub(super) fn new(most: usize) -> Self {
        Self { most, states: Mutex::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn admit(self: &Arc<Self>, source: IpAddr) -> Admission {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut evicted = None;
        if states.len() >= self.most {
            let Some(out) = evict_one(&mut states) else { return Admission::Full };
            evicted = Some(out);
        }
        let phase = Mutex::new(Phase::Idle(Instant::now()));
        let (evicted_flag, changed) = (Mutex::new(false), Notify::new());
        let state = Arc::new(State { source, phase, evicted: evicted_flag, changed });
        states.push(state.clone());
        drop(states);
        let slot = Slot { state, table: self.clone() };
        match evicted {
            None => Admission::Free(slot),
            Some(out) => Admission::Replaced(slot, out),
        }
    }

    /// Closes up to `count` waiting connections. Returns how many.
    pub(super) fn shed(&self, count: usize) -> usize {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).map_while(|_| evict_one(&mut states)).count()
    }
}

/// Closes one waiting connection: the oldest from the address that has the most. So many connections from one address
/// replace only each other.
fn evict_one(states: &mut Vec<Arc<State>>) -> Option<IpAddr> {
    let mut counts = HashMap::<IpAddr, usize>::new();
    for state in states.iter() {
        *counts.entry(state.source).or_default() += 1;
    }
    let waiting = states.iter().enumerate().filter_map(|(index, state)| {
        let since = state.phase().waits_since()?;
        let from_address = counts.get(&state.source).copied().unwrap_or_default();
        Some((std::cmp::Reverse(from_address), since, index))
    });
    let (_, _, index) = waiting.min()?;
    let state = states.swap_remove(index);
    state.evict();
    Some(state.source)
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut states = self.table.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|state| !Arc::ptr_eq(state, &self.state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn table(most: usize) -> Arc<Table> {
        Arc::new(Table::new(most))
    }

    fn slot(table: &Arc<Table>, source: u8) -> Option<Slot> {
        match table.admit(IpAddr::from([192, 0, 2, source])) {
            Admission::Free(slot) | Admission::Replaced(slot, _) => Some(slot),
            Admission::Full => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_with_most_connections_loses_one_and_answers_in_progress_are_kept() {
        let table = table(4);
        let lone = slot(&table, 1).unwrap();
        let mut many = Vec::new();
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(1)).await;
            many.push(slot(&table, 2).unwrap());
        }
        many[0].state.set(Phase::Answer);
        let newest = slot(&table, 3).unwrap();
        let evicted: Vec<_> = many.iter().map(|slot| slot.state.is_evicted()).collect();
        assert_eq!(evicted, [false, true, false], "the oldest that waits");
        assert!(!lone.state.is_evicted(), "older, but the only one from its address");
        for slot in [&lone, &newest, &many[2]] {
            slot.state.set(Phase::Answer);
        }
        assert!(slot(&table, 4).is_none(), "all are being answered");
        drop(lone);
        assert!(slot(&table, 4).is_some());
        drop((many, newest));
        assert_eq!(table.len(), 0);
    }
}
