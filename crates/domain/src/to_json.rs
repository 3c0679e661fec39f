//! JSON of our own types. Each of them always has one, so callers have no error to handle.

use serde::Serialize;
use serde_json::Value;

/// `value` as JSON.
///
/// # Panics
///
/// If a map of the type has keys that are not text, or its own `Serialize` fails: a mistake in our code, which would
/// otherwise be stored, or hashed, as nothing.
#[expect(clippy::expect_used, reason = "only a mistake in our own types fails here")]
pub fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a type of Canyon has JSON")
}

/// `value` as the text of its JSON.
///
/// # Panics
///
/// As [`to_json`].
#[expect(clippy::expect_used, reason = "only a mistake in our own types fails here")]
pub fn to_json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a type of Canyon has JSON")
}
