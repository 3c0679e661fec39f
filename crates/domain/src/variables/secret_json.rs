//! A JSON value that may be a secret: `Debug` does not show it.

use crate::json::Json;
use serde::{Deserialize, Serialize};
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

impl fmt::Debug for SecretJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretJson(***)")
    }
}
