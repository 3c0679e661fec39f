//! The `age` public keys of a deployment's outputs or logs: one text, with commas between several keys.

/// Most keys in a text. Each frame of an encrypted log has a header of 100 bytes for each key.
pub const MAX_RECIPIENTS: usize = 10;

/// The keys in `text`, which are not checked.
///
/// ```
/// use canyon_domain::age_recipients::split;
/// assert_eq!(split("age1a,age1b").collect::<Vec<_>>(), ["age1a", "age1b"]);
/// ```
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
}
