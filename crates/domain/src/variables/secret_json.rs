//! A JSON value that may be a secret: `Debug` does not show it.

use crate::json::Json;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretJson(Json);

impl SecretJson {
    /// The value.
    pub fn expose(&self) -> &Json {
        &self.0
    }
}

impl From<Json> for SecretJson {
    fn from(value: Json) -> Self {
        Self(value)
    }
}

/// Reads values by name. Where serde finds something else, its error repeats that; this one does not.
///
/// # Errors
///
/// If it is no object, or has a name twice.
pub fn by_name<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, SecretJson>, D::Error> {
    from.deserialize_any(ByName)
}

struct ByName;

impl ByName {
    fn refuse<T, E: Error>() -> Result<T, E> {
        Err(E::custom("must be an object with each value under its name"))
    }
}

impl<'de> Visitor<'de> for ByName {
    type Value = BTreeMap<String, SecretJson>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with each value under its name")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Self::refuse()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Self::refuse()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Self::refuse()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Self::refuse()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Self::refuse()
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Self::refuse()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Self::refuse()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, SecretJson>()? {
            if values.insert(name, value).is_some() {
                return Err(A::Error::custom("has a name twice"));
            }
        }
        Ok(values)
    }
}

impl fmt::Debug for SecretJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretJson(***)")
    }
}
