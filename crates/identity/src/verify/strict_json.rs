//! JSON that rejects an object with a repeated name. Parsers differ in which value they use (RFC
//! 8259, section 4), so that one could check what another does not use.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Parses all of `bytes`.
///
/// # Errors
///
/// An error if `bytes` is not JSON, or an object repeats a name.
pub(super) fn read(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            if values.contains_key(&name) {
                return Err(A::Error::custom("an object repeats a name"));
            }
            values.insert(name, object.next_value_seed(Self)?);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_document_is_rejected() {
        let good = r#"{"a": [1, -2, 3.5, "x", null, true, {"a": {}}], "b": {"a": 1}}"#;
        assert_eq!(read(good.as_bytes()).unwrap(), serde_json::from_str::<Value>(good).unwrap());
        for bad in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": {"b": 1, "b": 2}}"#,
            r#"[{"a": 1, "\u0061": 2}]"#,
            r#"{"a": 1} {"a": 2}"#,
            r#"{"a": 1},"#,
            r#"{"a": NaN}"#,
            r#"{"a": 1e999}"#,
            r"{'a': 1}",
            "",
            "{\"a\": \"\u{0}\"}",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read(&[b'[', 0xff, b']']).is_err());
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }
}
