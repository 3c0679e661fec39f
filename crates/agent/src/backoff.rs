//! Pauses between tries.

use canyon_domain::seam::Entropy;
use canyon_identity::system::System;
use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(250);
/// The longest: a Canyon that comes back is found within this time.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that double, with jitter so that a fleet of agents does not come back at the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next pause: between half of its nominal length and all of it.
    pub fn pause(&mut self) -> Duration {
        let nominal = (FIRST * 2_u32.pow(self.tries.min(10))).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        jittered(nominal)
    }

    /// It worked.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// Between half of `nominal` and all of it.
pub fn jittered(nominal: Duration) -> Duration {
    let mut drawn = [0; 4];
    System.fill(&mut drawn);
    let share = f64::from(u32::from_le_bytes(drawn)) / f64::from(u32::MAX);
    nominal.mul_f64(0.5 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_half_a_minute_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        assert!(backoff.pause() <= FIRST);
        for _ in 0..20 {
            backoff.pause();
        }
        let pause = backoff.pause();
        assert!(pause >= LONGEST / 2 && pause <= LONGEST, "{pause:?}");
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
