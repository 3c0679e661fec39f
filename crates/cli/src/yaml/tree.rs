//! The types that a document is read into: JSON as the server accepts it, or with every digit of its numbers.

use canyon_domain::json::{Json, JsonNumber};
use serde_json::{Map, Number, Value};

/// A value that can be read from YAML.
pub(crate) trait Tree: Sized {
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

/// `value` with a placeholder text, `placeholder` and an index, for each number that does not fit into 64
/// bits; and those numbers.
pub(super) fn without_long_numbers(value: &Json, placeholder: &str) -> (Value, Vec<String>) {
    let mut numbers = Vec::new();
    (short(value, placeholder, &mut numbers), numbers)
}

fn short(value: &Json, placeholder: &str, numbers: &mut Vec<String>) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => {
            Value::Array(items.iter().map(|item| short(item, placeholder, numbers)).collect())
        }
        Json::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| (name.clone(), short(member, placeholder, numbers)))
                .collect(),
        ),
        Json::Number(digits) => {
            let text = digits.as_str();
            match <Value as Tree>::number(text) {
                Some(Value::Number(number)) if number.to_string() == text => Value::Number(number),
                _ => {
                    numbers.push(text.to_owned());
                    Value::String(format!("{placeholder}-{}-", numbers.len() - 1))
                }
            }
        }
    }
}
