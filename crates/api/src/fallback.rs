//! A deployment on another runner than its environment's own.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a deployment runs on a fallback runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeploymentFallback)]
pub struct Fallback {
    /// The environment's own runner.
    pub instead_of: String,
    /// Why neither that runner nor an earlier fallback took it, for people.
    pub reason: String,
}
