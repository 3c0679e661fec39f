//! A text from outside, as it may stand in a message.

/// At most this many characters are repeated.
const LONGEST: usize = 80;

/// `text` without control characters, and cut: a caller could otherwise write lines of its own into a log.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(LONGEST).collect::<String>().escape_debug().to_string()
}
