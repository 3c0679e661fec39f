//! JSON values whose numbers keep every digit: inputs and outputs of modules.
//!
//! OpenTofu's numbers have a mantissa of 512 bits (`cty.Number`), and its JSON contains all digits. A
//! [`serde_json::Value`] has 64 bits: `18446744073709551617` becomes `18446744073709552000`, and the 401
//! digits of `1e400` are refused as out of range. Here a number is its text.
//!
//! `serde_json`'s feature `arbitrary_precision` would also keep them, but for the whole program and every
//! library in it: it breaks numbers in untagged and flattened types and in formats other than JSON.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum nesting of a value, so that parsing cannot exhaust the stack. `serde_json` has the same limit.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(JsonNumber),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object.
    Object(BTreeMap<String, Json>),
}

/// A number in JSON's notation (RFC 8259, 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonNumber(Box<str>);

/// Why a text is not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJson {
    /// It is not JSON.
    #[error("not JSON")]
    Syntax,
    /// It is nested too deep.
    #[error("nested more than {MAX_DEPTH} levels deep")]
    Depth,
}

impl JsonNumber {
    /// The number `text`, if it is one in JSON's notation.
    pub fn new(text: &str) -> Option<Self> {
        let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && text.ends_with(|c: char| c.is_ascii_digit())
            && serde_json::from_str::<&RawValue>(text).is_ok();
        is_number.then(|| Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Json {
    /// Reads `text`.
    ///
    /// # Errors
    ///
    /// [`InvalidJson`] if it is not JSON, or nested too deep.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        let raw = serde_json::from_str::<&RawValue>(text).map_err(|_| InvalidJson::Syntax)?;
        Self::read(raw, MAX_DEPTH)
    }

    /// Splits each level into the texts of its members: `serde_json` gives access to a number's digits in no
    /// other way.
    fn read(raw: &RawValue, depth: usize) -> Result<Self, InvalidJson> {
        fn part<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, InvalidJson> {
            serde_json::from_str(text).map_err(|_| InvalidJson::Syntax)
        }
        let text = raw.get().trim();
        let below = depth.checked_sub(1).ok_or(InvalidJson::Depth);
        Ok(match text.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'"') => Self::String(part(text)?),
            Some(b'[') => {
                let below = below?;
                let items: Vec<&RawValue> = part(text)?;
                let items = items.into_iter().map(|item| Self::read(item, below));
                Self::Array(items.collect::<Result<_, _>>()?)
            }
            Some(b'{') => {
                let below = below?;
                let members: BTreeMap<String, &RawValue> = part(text)?;
                let members = members
                    .into_iter()
                    .map(|(name, member)| Ok((name, Self::read(member, below)?)));
                Self::Object(members.collect::<Result<_, _>>()?)
            }
            _ => Self::Number(JsonNumber(text.into())),
        })
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The nesting depth of lists and objects.
    pub fn depth(&self) -> usize {
        let below = match self {
            Self::Array(items) => items.iter().map(Self::depth).max(),
            Self::Object(members) => members.values().map(Self::depth).max(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => return 0,
        };
        1 + below.unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(&raw, MAX_DEPTH).map_err(D::Error::custom)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(digits) => digits.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => items.serialize(serializer),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

impl Serialize for JsonNumber {
    /// A number that fits 64 bits is serialized as a number in every format; any other one in JSON only.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_same = |written: String| written == *self.0;
        if let Some(number) = self.0.parse::<i64>().ok().filter(|n| is_same(n.to_string())) {
            return serializer.serialize_i64(number);
        }
        if let Some(number) = self.0.parse::<u64>().ok().filter(|n| is_same(n.to_string())) {
            return serializer.serialize_u64(number);
        }
        let raw = RawValue::from_string(self.0.to_string()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// As JSON, on one line.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(JsonNumber(number.to_string().into())),
            Value::String(text) => Self::String(text),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members.into_iter().map(|(name, member)| (name, member.into())).collect(),
            ),
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    #[test]
    fn every_digit_of_a_number_survives() {
        let large = format!("1{}", "0".repeat(400));
        for number in [
            "0",
            "-0",
            "7",
            "-7",
            "1.50",
            "1e3",
            "9007199254740993",
            "18446744073709551617",
            "-9223372036854775809",
            "1e400",
            large.as_str(),
            "0.1000000000000000055511151231257827021181583404541015625",
        ] {
            let text = format!(r#"{{"a":[{number},null],"b":true}}"#);
            let value = Json::parse(&text).unwrap();
            assert_eq!(value.to_string(), text);
            assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), value);
        }
    }

    #[test]
    fn it_is_read_and_written_like_any_other_value_within_types() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Holder {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            value: Option<Json>,
        }
        let value = json!({"value": {"n": 3, "t": "\u{1}é\"", "l": [], "o": {}, "f": false}});
        let holder: Holder = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&holder).unwrap(), value);
        assert_eq!(holder.value.clone().unwrap(), Json::from(value["value"].clone()));
        let mut reader =
            serde_json::Deserializer::from_slice(br#"{"value": 18446744073709551617}"#);
        let exact: Holder = serde_path_to_error::deserialize(&mut reader).unwrap();
        assert_eq!(serde_json::to_string(&exact).unwrap(), r#"{"value":18446744073709551617}"#);
        assert_eq!(serde_json::from_str::<Holder>(r#"{"value": null}"#).unwrap().value, None);
    }

    #[test]
    fn invalid_or_too_deep_json_is_refused() {
        for text in ["", "01", "1.", "+1", "nul", "[1,]", "{\"a\" 1}", "1 2", "\"\\ud800\"", "NaN"]
        {
            assert_eq!(Json::parse(text), Err(InvalidJson::Syntax), "{text}");
            assert!(serde_json::from_str::<Json>(text).is_err(), "{text}");
        }
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(Json::parse(&nested(128)).unwrap().depth(), 128);
        for levels in [129, 100_000] {
            assert_eq!(Json::parse(&nested(levels)), Err(InvalidJson::Depth), "{levels}");
        }
        for text in ["1", "-1.5e+3", "0"] {
            assert_eq!(JsonNumber::new(text).unwrap().as_str(), text);
        }
        for text in ["", "1 ", "x", "null", "[1]", "-", "1.", "01", "\"1\""] {
            assert_eq!(JsonNumber::new(text), None, "{text}");
        }
    }
}
