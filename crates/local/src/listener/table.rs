//! The connections there are, and which of them makes way for a new one.

use super::connection::Limited;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a request, since then.
    Idle(Instant),
    /// The head of a request comes, since then.
    Head(Instant),
    /// The body of a request comes; the last part came then.
    Body(Instant),
    /// A request is being answered.
    Answer,
    /// The peer takes nothing of the answer.
    Blocked {
        /// Since when.
        since: Instant,
        /// Whether only what is in buffers is left of the answer.
        is_whole: bool,
    },
}

impl Phase {
    /// Since when Canyon waits for the peer, if it does.
    fn waits_since(self) -> Option<Instant> {
        match self {
            Self::Idle(since)
            | Self::Head(since)
            | Self::Body(since)
            | Self::Blocked { since, .. } => Some(since),
            Self::Answer => None,
        }
    }

    /// When the connection is closed if nothing comes.
    pub(super) fn deadline(self, limits: &Limited) -> Option<Instant> {
        match self {
            Self::Idle(since) => Some(since + limits.idle),
            Self::Head(since) => Some(since + limits.head),
            Self::Blocked { since, .. } => Some(since + limits.stall),
            // The router has limits of its own for bodies, and answers.
            Self::Body(_) | Self::Answer => None,
        }
    }
}

/// One connection, as the table knows it.
#[derive(Debug)]
pub(super) struct State {
    source: IpAddr,
    phase: Mutex<Phase>,
    evicted: Mutex<bool>,
    /// Something has changed that its task must see.
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

    /// Sets the phase that follows the one there is, if any does.
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

/// The connections there are.
#[derive(Debug)]
pub(super) struct Table {
    most: usize,
    states: Mutex<Vec<Arc<State>>>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) state: Arc<State>,
    table: Arc<Table>,
}

/// Whether there is a place for another connection.
pub(super) enum Admission {
    /// There is.
    Free(Seat),
    /// One that does nothing, from this address, makes way.
    InPlaceOf(Seat, IpAddr),
    /// Each of those there are is being answered.
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
        let seat = Seat { state, table: self.clone() };
        match evicted {
            None => Admission::Free(seat),
            Some(out) => Admission::InPlaceOf(seat, out),
        }
    }

    /// Closes some that do nothing. How many.
    pub(super) fn shed(&self, count: usize) -> usize {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).map_while(|_| evict_one(&mut states)).count()
    }
}

/// Closes one that Canyon waits for: the oldest from the address that has most connections, so that a crowd from one
/// address closes only its own.
fn evict_one(states: &mut Vec<Arc<State>>) -> Option<IpAddr> {
    let mut counts = HashMap::<IpAddr, usize>::new();
    for state in states.iter() {
        *counts.entry(state.source).or_default() += 1;
    }
    let waiting = states.iter().enumerate().filter_map(|(place, state)| {
        let since = state.phase().waits_since()?;
        let crowd = counts.get(&state.source).copied().unwrap_or_default();
        Some((std::cmp::Reverse(crowd), since, place))
    });
    let (_, _, place) = waiting.min()?;
    let state = states.swap_remove(place);
    state.evict();
    Some(state.source)
}

impl Drop for Seat {
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

    fn seat(table: &Arc<Table>, source: u8) -> Option<Seat> {
        match table.admit(IpAddr::from([192, 0, 2, source])) {
            Admission::Free(seat) | Admission::InPlaceOf(seat, _) => Some(seat),
            Admission::Full => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_makes_way_for_others_and_what_is_being_answered_stays() {
        let table = table(4);
        let lone = seat(&table, 1).unwrap();
        let mut crowd = Vec::new();
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(1)).await;
            crowd.push(seat(&table, 2).unwrap());
        }
        crowd[0].state.set(Phase::Answer);
        let newcomer = seat(&table, 3).unwrap();
        let evicted: Vec<_> = crowd.iter().map(|seat| seat.state.is_evicted()).collect();
        assert_eq!(evicted, [false, true, false], "the oldest of the crowd that waits");
        assert!(!lone.state.is_evicted(), "older, and alone at its address");
        for seat in [&lone, &newcomer, &crowd[2]] {
            seat.state.set(Phase::Answer);
        }
        assert!(seat(&table, 4).is_none(), "each is being answered");
        drop(lone);
        assert!(seat(&table, 4).is_some());
        drop((crowd, newcomer));
        assert_eq!(table.len(), 0);
    }
}
