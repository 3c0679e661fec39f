//! The values of a module's variables.

use crate::json::Json;
use std::collections::BTreeMap;

/// Values of a module's variables, by name.
pub type Inputs = BTreeMap<String, Json>;
