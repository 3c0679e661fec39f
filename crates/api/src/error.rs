//! The body of every answer that is not a success.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What went wrong, and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A short code for the class of error, such as `API-404`; see the documentation.
    pub error: String,
    /// What happened, to which thing, and what to do next.
    pub message: String,
    /// More for programs: `fields` lists each faulty field of a body with its path and reason.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// The request that this answers; Canyon's log has it in every line about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
