//! Pauses between tries.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);
/// The longest: a control plane that comes back is found within this time.
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double, with jitter so that many runners do not come back at the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next pause: between half of its nominal length and all of it.
    pub fn pause(&mut self) -> Duration {
        let nominal = (FIRST * 2_u32.pow(self.tries.min(10))).min(LONGEST);
        self.tries += 1;
        // Without randomness the pause is merely the full one.
        let share = getrandom::u32().map_or(1.0, |drawn| f64::from(drawn) / f64::from(u32::MAX));
        nominal.mul_f64(0.5 + share / 2.0)
    }

    /// Whether a try has failed since the last success.
    pub fn is_failing(self) -> bool {
        self.tries > 0
    }

    /// It worked.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}
