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
    /// Runs one [`StateCommand`](crate::state_command::StateCommand), and no plan.
    State,
    /// Compares the environment with what was deployed last, beside its queue, and changes nothing.
    Drift,
}

impl Mode {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Destroy => "destroy",
            Self::Rollback => "rollback",
            Self::State => "state",
            Self::Drift => "drift",
        }
    }

    /// Whether it waits for the environment's turn, and runs alone in it.
    pub fn takes_turn(self) -> bool {
        self != Self::Drift
    }

    /// Whether its apply creates resources, which a run that is cut off may leave in no state.
    pub fn creates(self) -> bool {
        matches!(self, Self::Deploy | Self::Rollback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_one_name_in_the_api_and_in_the_table() {
        for (mode, name) in [
            (Mode::Deploy, "deploy"),
            (Mode::Destroy, "destroy"),
            (Mode::Rollback, "rollback"),
            (Mode::State, "state"),
            (Mode::Drift, "drift"),
        ] {
            assert_eq!(mode.as_str(), name);
            assert_eq!(serde_json::to_value(mode).unwrap(), name);
        }
    }
}
