//! The clock and the random numbers of the operating system.

use canyon_domain::ports::{Clock, Entropy};
use jiff::Timestamp;

/// The real implementations of [`Clock`] and [`Entropy`].
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

impl Entropy for System {
    fn fill(&self, bytes: &mut [u8]) {
        // Without random numbers every new secret would be guessable.
        #[expect(clippy::expect_used, reason = "a process without random numbers must stop")]
        aws_lc_rs::rand::fill(bytes).expect("the operating system provides random numbers");
    }
}
