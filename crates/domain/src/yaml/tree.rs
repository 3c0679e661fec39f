//! The types that a document is read into: JSON as the server accepts it, or with every digit of its numbers.

use crate::json::{Json, JsonNumber};
use serde_json::{Map, Number, Value};

/// A value that can be read from YAML.
pub trait Tree: Sized {
    /// `null`.
    fn null() -> Self;
    /// `true` or `false`.
    fn boolean(value: bool) -> Self;
    /// A text.
    fn text(text: String) -> Self;
    /// A list.
    fn list(items: Vec<Self>) -> Self;
    /// An object; the caller guarantees that its keys differ.
    fn object(members: Vec<(String, Self)>) -> Self;
    /// The number that `text` is in JSON; `None` if this type cannot hold it exactly.
    fn number(text: &str) -> Option<Self>;
}

impl Tree for Value {
    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Bool(value)
    }

    fn text(text: String) -> Self {
        Self::String(text)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn object(members: Vec<(String, Self)>) -> Self {
        Self::Object(Map::from_iter(members))
    }

    fn number(text: &str) -> Option<Self> {
        if text.contains(['.', 'e', 'E']) {
            return text.parse().ok().and_then(Number::from_f64).map(Self::Number);
        }
        let signed = text.parse::<i64>().map(Self::from);
        signed.or_else(|_| text.parse::<u64>().map(Self::from)).ok()
    }
}

impl Tree for Json {
    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Bool(value)
    }

    fn text(text: String) -> Self {
        Self::String(text)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn object(members: Vec<(String, Self)>) -> Self {
        Self::Object(members.into_iter().collect())
    }

    fn number(text: &str) -> Option<Self> {
        JsonNumber::new(text).map(Self::Number)
    }
}
