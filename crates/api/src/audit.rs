//! The audit list.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// One accepted change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its id; sorts by time.
    pub id: Uuid,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who: the id of a token, or of Canyon itself (all zeros).
    pub by: Uuid,
    /// What: `<kind>.<verb>`.
    #[schema(example = "runner.create")]
    pub action: String,
    /// To which thing.
    #[schema(example = "runners/my-gke-runner")]
    pub subject: String,
    /// By what right.
    #[schema(example = "admin")]
    pub by_right: String,
    /// What else was kept, such as the resources that were left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}
