//! Tokens with which a job authenticates to clouds.

use canyon_domain::job_identity::TokenPhase;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A runner's request for a token of its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueTokenBody {
    /// The audience: one that the runner's `job.identity` names.
    #[schema(max_length = 1024)]
    pub audience: String,
    /// The phase in the token: `plan`, or `apply` once Canyon has recorded the start of the apply.
    #[schema(value_type = String)]
    pub phase: TokenPhase,
}

/// A token of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IssuedToken {
    /// The audience.
    pub audience: String,
    /// The phase in the token.
    #[schema(value_type = String)]
    pub phase: TokenPhase,
    /// A JWT, signed by Canyon's issuer.
    pub token: String,
    /// Remaining lifetime in seconds, for a client whose clock may be wrong.
    pub expires_in: u32,
    /// Time of expiry.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
