//! External text that is safe in a message.

/// The most characters that are repeated.
const LONGEST: usize = 80;

/// `text` without control characters, and shortened. Otherwise a caller could write its own lines into a log.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(LONGEST).collect::<String>().escape_debug().to_string()
}
