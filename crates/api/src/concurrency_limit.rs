//! Concurrency limits of jobs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A limit, with the holders of its slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConcurrencyLimit {
    /// Its scope: `organization`, `runner:ID`, `project:ID` or `checks:RUNNER`.
    #[schema(example = "project:payments")]
    pub scope: String,
    /// Most jobs at once.
    pub max_jobs: u32,
    /// The deployments that hold its slots.
    pub held_by: Vec<Uuid>,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to set a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyLimitBody {
    /// Most jobs at once.
    #[schema(minimum = 1, maximum = 1000)]
    pub max_jobs: u32,
}
