//! A lock that blocks a run, and what Canyon decides about it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A lock on the state that blocks the run, as OpenTofu describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeLockBody {
    /// The lock's id.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// Its holder: `user@host`.
    #[schema(max_length = 511)]
    pub who: String,
    /// Time of its creation, by the holder's clock.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// Its purpose, such as `OperationTypeApply`.
    #[serde(default)]
    #[schema(max_length = 255)]
    pub operation: String,
    /// Id of a running process on the holder's host that belongs to no job and may hold the lock,
    /// if the runner is on that host and finds one.
    #[serde(rename = "neighbour", default, skip_serializing_if = "Option::is_none")]
    pub host_process: Option<u32>,
}

/// The decision about a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JudgeLockAnswer {
    /// Id of the lock.
    pub id: String,
    /// The decision.
    #[serde(rename = "verdict")]
    pub decision: LockDecision,
    /// The reason as text; with `break`, the proof that the holder is dead.
    pub reason: String,
    /// Releasing the lock by hand would lose what its dead holder could not write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_stay: bool,
}

/// The decision about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LockVerdict)]
pub enum LockDecision {
    /// The holder is proved dead: release the lock by its id.
    Break,
    /// An attempt of Canyon may hold it and is not proved dead yet: ask again.
    Wait,
    /// Another program or user holds it: leave it.
    Keep,
}
