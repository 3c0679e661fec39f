//! The tokens with which a job proves to clouds who it is.

use canyon_domain::job_identity::TokenPhase;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A runner asks for a token of its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueTokenBody {
    /// For whom it is: an audience that the runner's `job.identity` names.
    #[schema(max_length = 1024)]
    pub audience: String,
    /// What the token says that the run does: `plan`, or `apply` once Canyon has recorded that.
    #[schema(value_type = String)]
    pub phase: TokenPhase,
}

/// A token of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedToken {
    /// For whom it is.
    pub audience: String,
    /// What it says that the run does.
    #[schema(value_type = String)]
    pub phase: TokenPhase,
    /// A JWT, signed by Canyon's issuer.
    pub token: String,
    /// How many seconds it is good from now on, for those whose clock is wrong.
    pub expires_in: u32,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
