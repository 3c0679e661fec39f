//! A token of another issuer, exchanged for one of Canyon's (RFC 8693).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `grant_type` of an exchange.
pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// A token of the kind that is taken: signed, and with claims.
pub const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// The same, where it says who somebody is.
pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// A token of the kind that is given.
pub const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// What to exchange, as a form (`application/x-www-form-urlencoded`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenExchangeForm {
    /// Always `urn:ietf:params:oauth:grant-type:token-exchange`.
    #[schema(example = "urn:ietf:params:oauth:grant-type:token-exchange")]
    pub grant_type: String,
    /// The token of the issuer.
    pub subject_token: String,
    /// Its kind: `urn:ietf:params:oauth:token-type:jwt` or `...:id_token`.
    #[schema(example = "urn:ietf:params:oauth:token-type:jwt")]
    pub subject_token_type: String,
    /// The service account to sign in as.
    pub service_account: String,
    /// Taken and not used: the token is for this organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// If given, `urn:ietf:params:oauth:token-type:access_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_token_type: Option<String>,
}

/// What it was exchanged for.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct AccessToken {
    /// The token, to be shown as `Authorization: Bearer`.
    pub access_token: String,
    /// Always `urn:ietf:params:oauth:token-type:access_token`.
    pub issued_token_type: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// How long it is good, in seconds.
    #[schema(example = 900)]
    pub expires_in: u64,
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessToken").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

/// Why there was no exchange (RFC 6749, section 5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OAuthError {
    /// One of the words of the RFC, such as `invalid_grant`.
    #[schema(example = "invalid_grant")]
    pub error: String,
    /// What happened, and what to do.
    pub error_description: String,
    /// The same, where all other refusals of this API have it.
    pub message: String,
    /// The id of the request, which the log has too.
    pub request_id: String,
}
