//! Canyon's clock, as its answers show it. This machine's clock may be an hour off. So tokens that the agent signs have
//! Canyon's time, and everything else is measured in durations.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap};
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

    /// By how much answers have corrected the clock since it showed `shown` at `at`.
    pub fn correction_since(&self, at: Instant, shown: Timestamp) -> Duration {
        let expected = shown.saturating_add(at.elapsed()).unwrap_or(shown);
        self.now().duration_since(expected).unsigned_abs()
    }

    /// Sets the clock by the `Date` of an answer (RFC 9110, 6.6.1).
    pub(super) fn set_by(&self, headers: &HeaderMap) {
        if let Some(date) = headers.get(DATE).and_then(|date| date.to_str().ok()) {
            self.set_by_date(date);
        }
    }

    fn set_by_date(&self, date: &str) {
        static PARSER: DateTimeParser = DateTimeParser::new();
        let Ok(shown) = PARSER.parse_timestamp(date) else { return };
        let off = shown.duration_since(self.now()).unsigned_abs();
        // A date has whole seconds, so a smaller difference may be only rounding.
        if off > Duration::from_secs(2) {
            *self.anchor.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_an_hour_off_follows_canyons() {
        let clock = ServerClock::starting_at("2026-01-01T11:00:00Z".parse().unwrap());
        let (at, shown) = (Instant::now(), clock.now());
        clock.set_by_date("Thu, 01 Jan 2026 10:00:00 GMT");
        let off = clock.correction_since(at, shown);
        assert!(off > Duration::from_mins(59), "{off:?}");
        let ten: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        assert!(clock.now().duration_since(ten).unsigned_abs() < Duration::from_secs(2));
        let (at, shown) = (Instant::now(), clock.now());
        clock.set_by_date("yesterday");
        clock.set_by_date("Thu, 01 Jan 2026 10:00:01 GMT");
        let off = clock.correction_since(at, shown);
        assert!(off < Duration::from_secs(1), "a date has whole seconds: {off:?}");
    }
}
