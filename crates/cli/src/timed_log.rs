//! OpenTofu's events as lines with the time of each.

use jiff::Timestamp;
use serde::Deserialize;
use std::fmt::Write as _;

/// Reads events that come in parts.
#[derive(Debug, Default)]
pub(crate) struct TimedLog {
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
}

/// What is shown of an event.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "@timestamp")]
    time: Timestamp,
    #[serde(rename = "@message")]
    message: String,
    #[serde(default)]
    diagnostic: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Diagnostic {
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    detail: String,
}

impl TimedLog {
    /// Adds a part, which may end anywhere in a line, and returns the text of the events that are complete now.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.rest.extend(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.rest.split_off(end + 1);
        let complete = std::mem::replace(&mut self.rest, rest);
        complete.split_inclusive(|byte| *byte == b'\n').flat_map(text).collect()
    }
}

/// The text of one line. Whatever is no event stays as it is.
fn text(line: &[u8]) -> Vec<u8> {
    let Ok(event) = serde_json::from_slice::<Event>(line) else { return line.to_vec() };
    let mut message = event.message.trim_end().to_owned();
    if let Some(Diagnostic { address, detail }) = event.diagnostic {
        // Writing to a String cannot fail.
        if let Some(address) = address {
            let _ = write!(message, "\n  with {address}");
        }
        for line in detail.lines() {
            let _ = write!(message, "\n  {line}");
        }
    }
    let time = event.time;
    // With the time in each line, a line found by `grep` says when it was written.
    let lines = message.lines().filter(|line| !line.trim().is_empty());
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{time:.3} {line}");
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = concat!(
        r#"{"@level":"info","@message":"OpenTofu 1.12","@timestamp":"2026-01-31T12:00:00.123456Z","type":"version"}"#,
        "\n",
        r#"{"@message":"Error: no\u00e4","@timestamp":"2026-01-31T14:00:01+02:00","type":"diagnostic","diagnostic":{"severity":"error","summary":"no","address":"a.b","detail":"one\n\ntwo"}}"#,
        "\nnot an event\n",
        r#"{"@message":"","@timestamp":"2026-01-31T12:00:02Z"}"#,
        "\n",
    );

    #[test]
    fn each_line_has_the_time_of_its_event_however_the_events_are_cut() {
        for cut in 1..EVENTS.len() {
            let mut log = TimedLog::default();
            let parts = EVENTS.as_bytes().chunks(cut).flat_map(|part| log.read(part));
            let text = String::from_utf8(parts.collect()).unwrap();
            assert_eq!(
                text,
                "2026-01-31T12:00:00.123Z OpenTofu 1.12\n\
                 2026-01-31T12:00:01.000Z Error: noä\n\
                 2026-01-31T12:00:01.000Z   with a.b\n\
                 2026-01-31T12:00:01.000Z   one\n\
                 2026-01-31T12:00:01.000Z   two\n\
                 not an event\n",
                "cut at {cut}"
            );
        }
    }
}
