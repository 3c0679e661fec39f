//! A deployment that another runner has taken, because the environment's own runner could not.

use crate::ids::RunnerId;
use serde::{Deserialize, Serialize};

/// Why a deployment runs on a fallback runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The environment's own runner.
    pub instead_of: RunnerId,
    /// Why neither that runner nor an earlier fallback took the deployment, for people.
    pub reason: String,
}
