//! The argument of `--since`: a time, or an age.

use crate::error::CliError;
use jiff::{SignedDuration, Timestamp};
use std::str::FromStr;

/// The begin of a period that ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// It began at this time.
    Time(Timestamp),
    /// It is so long.
    Age(SignedDuration),
}

impl FromStr for Since {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORMS: &str =
            "give a time such as 2026-01-31T12:00:00Z, or an age such as 90m, 12h or 7d";
        if let Ok(time) = text.parse() {
            return Ok(Self::Time(time));
        }
        let unit = text.chars().next_back().ok_or(FORMS)?;
        let seconds: i64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 7 * 86_400,
            _ => return Err(FORMS),
        };
        let number = text.strip_suffix(unit).ok_or(FORMS)?;
        let number: u32 = number.parse().map_err(|_| FORMS)?;
        let seconds = seconds.checked_mul(number.into()).ok_or(FORMS)?;
        Ok(Self::Age(SignedDuration::from_secs(seconds)))
    }
}

impl Since {
    /// The begin of a period that ends at `now`.
    ///
    /// # Errors
    ///
    /// [`CliError::Usage`] if that is too long ago for a calendar.
    pub(crate) fn before(self, now: Timestamp) -> Result<Timestamp, CliError> {
        match self {
            Self::Time(time) => Ok(time),
            Self::Age(age) => {
                now.checked_sub(age).map_err(|_| CliError::usage("--since is too long ago"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_and_an_age_name_the_same_begin() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        for (given, begin) in [
            ("2026-01-31T11:00:00Z", "2026-01-31T11:00:00Z"),
            ("2026-01-31T12:00:00+01:00", "2026-01-31T11:00:00Z"),
            ("90s", "2026-01-31T11:58:30Z"),
            ("60m", "2026-01-31T11:00:00Z"),
            ("1h", "2026-01-31T11:00:00Z"),
            ("7d", "2026-01-24T12:00:00Z"),
            ("1w", "2026-01-24T12:00:00Z"),
        ] {
            let since: Since = given.parse().unwrap();
            assert_eq!(since.before(now).unwrap().to_string(), begin, "{given}");
        }
        for given in ["", "h", "-1h", "1", "1y", "yesterday", "1.5h", "99999999999h", "2026-01-31"]
        {
            assert!(given.parse::<Since>().is_err(), "{given}");
        }
        assert!("4000000000w".parse::<Since>().unwrap().before(now).is_err());
    }
}
