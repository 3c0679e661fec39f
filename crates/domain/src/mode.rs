//! What a deployment does to its environment.

use serde::{Deserialize, Serialize};

/// What a deployment does to its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Applies the module to the environment.
    Deploy,
    /// Destroys everything in the environment's state.
    Destroy,
    /// Repeats the module and inputs of a former deployment.
    Rollback,
}

impl Mode {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Destroy => "destroy",
            Self::Rollback => "rollback",
        }
    }
}
