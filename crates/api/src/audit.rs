//! Audit records.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// One accepted change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its id; sorts by time.
    pub id: Uuid,
    /// Time of the change.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Author of the change: the id of a principal, or of Canyon itself (all zeros).
    pub by: Uuid,
    /// The author's name, if it has one: of a person, a service account, or the description of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_name: Option<String>,
    /// The change: `<kind>.<verb>`.
    #[schema(example = "runner.create")]
    pub action: String,
    /// The changed thing.
    #[schema(example = "runners/my-gke-runner")]
    pub subject: String,
    /// The role that permitted it.
    #[schema(example = "admin")]
    pub by_right: String,
    /// Further details, such as resources that were left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}
