//! The real clock and the real source of chance.

use canyon_domain::seam::{Clock, Entropy};
use jiff::Timestamp;

/// The clock and the random numbers of the operating system.
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
        // Without random numbers no secret can be made; going on would make guessable ones.
        #[expect(clippy::expect_used, reason = "a process without random numbers must not go on")]
        aws_lc_rs::rand::fill(bytes).expect("the operating system gives random numbers");
    }
}
