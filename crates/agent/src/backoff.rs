//! Exponential backoff between tries.

use canyon_api::client::MAX_RETRY_AFTER;
use canyon_domain::ports::Entropy;
use canyon_identity::system::System;
use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause: the agent notices within this time that Canyon is back.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that double, with jitter so that a fleet of agents does not retry at the same moment.
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

    /// The next pause, or the one that the answer asked for if that is longer, up to [`MAX_RETRY_AFTER`].
    pub(crate) fn pause_of(&mut self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or_default().min(MAX_RETRY_AFTER).max(self.pause())
    }

    /// Starts over with the first pause, after a try succeeded.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// A random duration between half of `nominal` and all of it.
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
    fn pauses_grow_up_to_half_a_minute_and_start_over_after_a_success() {
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

    #[test]
    fn the_longer_of_the_own_pause_and_the_asked_one_is_used_up_to_the_limit() {
        let mut backoff = Backoff::default();
        assert!(backoff.pause_of(None) <= FIRST);
        assert_eq!(backoff.pause_of(Some(Duration::from_mins(1))), Duration::from_mins(1));
        assert_eq!(backoff.pause_of(Some(Duration::from_hours(24))), MAX_RETRY_AFTER);
        let own = Backoff { tries: 20 }.pause_of(Some(Duration::from_secs(1)));
        assert!(own >= LONGEST / 2, "{own:?}");
    }
}
