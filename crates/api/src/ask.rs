//! The word by which an answer shows which request it answers.
//!
//! A network may give one request the answer to another, or carry a request a second time. A caller draws a word for each
//! request ([`ASK`]); every answer of Canyon's repeats it ([`ANSWER_TO`]), and a change that comes with the same word again
//! is refused.

/// Header of a request: 1 to 64 letters, digits, `-` and `_`.
pub const ASK: &str = "canyon-ask";

/// Header of the answer to a request that had [`ASK`].
pub const ANSWER_TO: &str = "canyon-answer-to";

/// `details.code` of the refusal (409) of a change that came with a word that another one had.
pub const REPEATED: &str = "repeated";

/// Whether a word has the form of one.
pub fn is_word(word: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-_".contains(&c);
    (1..=64).contains(&word.len()) && word.bytes().all(plain)
}

/// A word that no other request has.
pub fn draw() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
