//! Limits on how many jobs run at once.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A limit, with who holds its places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConcurrencyLimit {
    /// What it is about: `organization`, `runner:ID` or `project:ID`.
    #[schema(example = "project:payments")]
    pub scope: String,
    /// How many jobs may run at once.
    pub max_jobs: u32,
    /// The deployments that hold its places.
    pub held_by: Vec<Uuid>,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to set a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyLimitBody {
    /// How many jobs may run at once.
    #[schema(minimum = 1, maximum = 1000)]
    pub max_jobs: u32,
}
