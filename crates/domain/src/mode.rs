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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_one_name_in_the_api_and_in_the_table() {
        for (mode, name) in
            [(Mode::Deploy, "deploy"), (Mode::Destroy, "destroy"), (Mode::Rollback, "rollback")]
        {
            assert_eq!(mode.as_str(), name);
            assert_eq!(serde_json::to_value(mode).unwrap(), name);
        }
    }
}
