//! Canyon's clock, as its answers show it. This machine's clock may be an hour off. So tokens that the agent signs have
//! Canyon's time, and everything else is measured in durations.

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
    /// This machine's clock, until an answer shows Canyon's.
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl ServerClock {
    /// A clock that shows `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        Self { anchor: Mutex::new((Instant::now(), now)) }
    }

    /// The time of Canyon's clock.
    pub fn now(&self) -> Timestamp {
        let (at, shown) = *self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        shown.saturating_add(at.elapsed()).unwrap_or(shown)
    }

    /// Sets the clock by the `Date` of an answer (RFC 9110, 6.6.1). Returns by how much it was off.
    pub fn set_by(&self, date: &str) -> Duration {
        static PARSER: DateTimeParser = DateTimeParser::new();
        let Ok(shown) = PARSER.parse_timestamp(date) else { return Duration::ZERO };
        let off = shown.duration_since(self.now()).unsigned_abs();
        // A date has whole seconds, so a smaller difference may be only rounding.
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
        let off = clock.set_by("Thu, 01 Jan 2026 10:00:00 GMT");
        assert!(off > Duration::from_mins(59), "{off:?}");
        let ten: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        assert!(clock.now().duration_since(ten).unsigned_abs() < Duration::from_secs(2));
        assert_eq!(clock.set_by("yesterday"), Duration::ZERO);
    }
}
