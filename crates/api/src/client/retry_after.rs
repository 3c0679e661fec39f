//! The pause that an answer asks for: `Retry-After` (RFC 9110, 10.2.3).

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use std::time::Duration;

/// The longest pause that Canyon, or a gateway in front of it, may ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);

/// The pause in these headers, at most [`MAX_RETRY_AFTER`]. The header has seconds, or a date. A date is compared with the
/// answer's own `Date`, because this machine's clock may be wrong.
pub(super) fn pause(headers: &HeaderMap) -> Option<Duration> {
    let given = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = if let Ok(seconds) = given.parse() {
        Duration::from_secs(seconds)
    } else {
        let ahead = date(headers, RETRY_AFTER)?.duration_since(date(headers, DATE)?);
        Duration::try_from(ahead).unwrap_or_default()
    };
    Some(asked.min(MAX_RETRY_AFTER))
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(headers.get(name)?.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn a_pause_is_read_in_seconds_or_as_a_date_and_is_at_most_five_minutes() {
        let five = "Thu, 01 Jan 2026 10:00:05 GMT";
        for (given, seconds) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("86400", Some(300)),
            ("18446744073709551615", Some(300)),
            (five, Some(5)),
            ("Thu, 01 Jan 2026 09:00:00 GMT", Some(0)),
            ("Fri, 02 Jan 2026 10:00:00 GMT", Some(300)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, HeaderValue::from_static("Thu, 01 Jan 2026 10:00:00 GMT"));
            headers.insert(RETRY_AFTER, HeaderValue::from_static(given));
            assert_eq!(pause(&headers), seconds.map(Duration::from_secs), "{given:?}");
        }
        let mut undated = HeaderMap::new();
        assert_eq!(pause(&undated), None);
        undated.insert(RETRY_AFTER, HeaderValue::from_static(five));
        assert_eq!(pause(&undated), None, "there is no date to compare with");
    }
}
