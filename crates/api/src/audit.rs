//! Audit records.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
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

/// Filters of the list of audit records. A record fulfils all that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only records of this action, such as `runner.create`, or of a kind of things: `runner` or `runner.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(max_length = 300, pattern = "^[a-z0-9_]+([.]([a-z0-9_]+|[*]))?$")]
    pub action: Option<String>,
    /// Only records with this value of `by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(format = Uuid)]
    pub by: Option<String>,
    /// Only records about this thing, or one below it: `projects/shop` finds `projects/shop/envs/dev` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 300)]
    pub subject: Option<String>,
    /// Only records of this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// Only records before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(format = DateTime)]
    pub until: Option<String>,
}
