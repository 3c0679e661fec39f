//! Random decisions from a seed, so that a run can be repeated; also a helper to lock a mutex, and the
//! time.

use jiff::Timestamp;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A seeded random generator for many tasks. (`SplitMix64`: Steele, Lea and Flood, OOPSLA 2014.)
#[derive(Debug)]
pub struct Chance(Mutex<u64>);

impl Chance {
    /// The same seed gives the same numbers in the same order.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let mut state = lock(&self.0);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True with this probability: 0 never, 1 always.
    pub fn happens(&self, rate: f64) -> bool {
        // 32 bits are exact in an f64, and fine enough for any rate a test names.
        let part = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
        f64::from(part) < rate * (f64::from(u32::MAX) + 1.0)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// A random time up to `most`.
    pub fn up_to(&self, most: Duration) -> Duration {
        let micros = usize::try_from(most.as_micros()).unwrap_or(usize::MAX);
        Duration::from_micros(u64::try_from(self.below(micros)).unwrap_or_default())
    }
}

/// A panic in one test task must not hide the first failure behind a second.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Now, with milliseconds, as AWS writes times.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_met_and_a_seed_repeats_itself() {
        let (one, same) = (Chance::new(7), Chance::new(7));
        assert_eq!(
            (0..100).map(|_| one.next()).collect::<Vec<_>>(),
            (0..100).map(|_| same.next()).collect::<Vec<_>>()
        );
        let hits = (0..10_000).filter(|_| one.happens(0.2)).count();
        assert!((1_800..2_200).contains(&hits), "{hits} of 10,000 at 20 %");
        assert!(!(0..1_000).any(|_| one.happens(0.0)));
        assert!((0..1_000).all(|_| one.happens(1.0)));
    }
}
