//! Splits the output of a job's container into its streams.

use crate::{TAIL_LIMIT, TailStream};
use canyon_domain::container_log::{Stream, Tail};

/// The prefix of lines that do not belong to the log.
const PREFIX: &str = "~canyon ";
const NOTE: &str = "note ";
/// The maximum number of characters of a runner's last message.
const MAX_MESSAGE: usize = 500;

/// The part of `stream` in `output` from `offset` on, at most [`TAIL_LIMIT`] bytes.
pub(crate) fn part(output: &[u8], stream: TailStream, offset: u64) -> Vec<u8> {
    let stream = match stream {
        TailStream::Log => Stream::Log,
        TailStream::Events => Stream::Events,
    };
    let mut found = Tail::read(output, stream, offset);
    found.truncate(usize::try_from(TAIL_LIMIT).unwrap_or(usize::MAX));
    found
}

/// The last line with text for people, without control characters.
pub(crate) fn last_message(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().find_map(|line| {
        let words = match line.strip_prefix(PREFIX) {
            Some(ours) => ours.strip_prefix(NOTE)?,
            None => line,
        };
        let words: String = words.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();
        (!words.trim().is_empty()).then_some(words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_of_a_runner_is_its_last_line_for_people() {
        let message = last_message(
            b"first\n~canyon note the API refused the \x1b[31mclaim\n~canyon at 6\n\n",
        );
        assert_eq!(message.as_deref(), Some("the API refused the [31mclaim"));
        assert_eq!(last_message(b"~canyon at 0\n"), None);
    }
}
