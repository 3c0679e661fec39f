//! A field of a partial update: absent, `null`, or a value. The three differ.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an update does to one field. In JSON: absent, `null`, a value. The field needs `#[serde(default,
/// skip_serializing_if = "Change::is_keep")]`.
///
/// ```
/// use canyon_domain::change::Change;
///
/// assert_eq!(serde_json::from_str::<Change<u32>>("null")?, Change::Remove);
/// assert_eq!(serde_json::from_str::<Change<u32>>("7")?, Change::Set(7));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// The field keeps its value.
    #[default]
    Keep,
    /// The value is removed.
    Remove,
    /// The field gets this value.
    Set(T),
}

impl<T> Change<T> {
    /// Whether the field keeps its value.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The value that the field gets, if it gets one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Keep | Self::Remove => None,
            Self::Set(value) => Some(value),
        }
    }

    /// The same update, with its value converted.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Remove => Change::Remove,
            Self::Set(value) => Change::Set(convert(value)),
        }
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Remove => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map_or(Self::Remove, Self::Set))
    }
}
