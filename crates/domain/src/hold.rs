//! Why the launcher starts no attempt of a deployment yet.

use crate::slot::LimitScope;
use serde::{Deserialize, Serialize};

/// Why the launcher starts no attempt of a deployment yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Its runner's definition or storage does not allow a launch at present.
    Runner,
    /// No agent of its runner is connected.
    Agent,
    /// All slots of this limit are held.
    Limit(LimitScope),
}
