//! Canyon's clock, as far as its answers tell it. This machine's own may be an hour off: what the agent
//! signs bears Canyon's time, and everything else is measured in durations.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Canyon's clock.
#[derive(Debug)]
pub struct ServerClock {
    anchor: Mutex<(Instant, Timestamp)>,
}

impl Default for ServerClock {
    /// This machine's own, until an answer says better.
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl ServerClock {
    /// A clock that shows `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        Self { anchor: Mutex::new((Instant::now(), now)) }
    }

    /// What Canyon's clock shows.
    pub fn now(&self) -> Timestamp {
        let (at, shown) = *self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        shown.saturating_add(at.elapsed()).unwrap_or(shown)
    }

    /// An answer bore this `Date` (RFC 9110, 6.6.1). Returns by how much the clock was off.
    pub fn heard(&self, date: &str) -> Duration {
        static PARSER: DateTimeParser = DateTimeParser::new();
        let Ok(shown) = PARSER.parse_timestamp(date) else { return Duration::ZERO };
        let off = shown.duration_since(self.now()).unsigned_abs();
        // A date has whole seconds: what is nearer than that may be the better clock.
        if off > Duration::from_secs(2) {
            *self.anchor.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), shown);
        }
        off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_an_hour_off_follows_canyons() {
        let clock = ServerClock::starting_at("2026-01-01T11:00:00Z".parse().unwrap());
        let off = clock.heard("Thu, 01 Jan 2026 10:00:00 GMT");
        assert!(off > Duration::from_mins(59), "{off:?}");
        let ten: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        assert!(clock.now().duration_since(ten).unsigned_abs() < Duration::from_secs(2));
        assert_eq!(clock.heard("yesterday"), Duration::ZERO);
    }
}
