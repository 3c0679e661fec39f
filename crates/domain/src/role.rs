//! What a caller may do.

use serde::{Deserialize, Serialize};

/// A role in an organization. From the viewer on, later includes earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// No permission in the whole organization; only scoped roles apply.
    None,
    /// Polls for the work of agents, and nothing else.
    Agent,
    /// Reads everything but secrets.
    Viewer,
    /// Also deploys and cancels.
    Deployer,
    /// Also changes runners, rules, projects and tokens.
    Admin,
}

impl Role {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Agent => "agent",
            Self::Viewer => "viewer",
            Self::Deployer => "deployer",
            Self::Admin => "admin",
        }
    }
}
