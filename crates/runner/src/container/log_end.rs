//! The end of a program's output, for the message of its failure.

use std::collections::VecDeque;

/// Maximum number of lines.
const MAX_LINES: usize = 80;
/// Maximum length of all lines together, in bytes.
const MAX_BYTES: usize = 4 * 1024;

/// The last lines of a program's output, as the log shows them.
#[derive(Debug, Default)]
pub(super) struct LogEnd {
    lines: VecDeque<String>,
    bytes: usize,
}

impl LogEnd {
    /// Adds a line, and forgets the first ones beyond the limits.
    pub(super) fn push(&mut self, line: &str) {
        let begin = line.len().saturating_sub(MAX_BYTES - 1);
        let begin = (begin..=line.len()).find(|at| line.is_char_boundary(*at)).unwrap_or_default();
        let line = line[begin..].to_owned();
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.len() + 1);
        }
    }

    /// The lines, if there are any.
    pub(super) fn text(&self) -> Option<String> {
        let lines: Vec<_> = self.lines.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_within_both_limits_are_kept() {
        let mut end = LogEnd::default();
        assert_eq!(end.text(), None);
        (0..200).for_each(|number| end.push(&format!("line {number}")));
        let text = end.text().unwrap();
        assert_eq!(text.lines().count(), 80);
        assert!(text.starts_with("line 120\n") && text.ends_with("\nline 199"), "{text}");
        end.push(&"é".repeat(MAX_BYTES));
        let text = end.text().unwrap();
        assert!(text.len() < MAX_BYTES && text.chars().all(|c| c == 'é'), "{}", text.len());
    }
}
