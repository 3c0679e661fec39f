//! Exponential backoff between tries.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause: a runner notices within this time that the control plane is back.
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double, with jitter so that many runners do not retry at the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next pause: between half of its nominal length and all of it.
    pub fn pause(&mut self) -> Duration {
        let nominal = (FIRST * 2_u32.pow(self.tries.min(10))).min(LONGEST);
        self.tries += 1;
        // If the machine has no randomness, the pause is the full one, without jitter.
        let share = getrandom::u32().map_or(1.0, |drawn| f64::from(drawn) / f64::from(u32::MAX));
        nominal.mul_f64(0.5 + share / 2.0)
    }

    /// Whether a try has failed since the last success.
    pub fn is_failing(self) -> bool {
        self.tries > 0
    }

    /// Starts over with the first pause, after a try succeeded.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}
