//! Exchange of a token of another issuer for one of Canyon (RFC 8693).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `grant_type` of an exchange.
pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// Type of accepted tokens: signed, with claims.
pub const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// Type of accepted tokens that are ID tokens.
pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// Type of issued tokens.
pub const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// A request for an exchange, as a form (`application/x-www-form-urlencoded`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenExchangeForm {
    /// Always `urn:ietf:params:oauth:grant-type:token-exchange`.
    #[schema(example = "urn:ietf:params:oauth:grant-type:token-exchange")]
    pub grant_type: String,
    /// The token of the issuer.
    pub subject_token: String,
    /// Its type: `urn:ietf:params:oauth:token-type:jwt` or `...:id_token`.
    #[schema(example = "urn:ietf:params:oauth:token-type:jwt")]
    pub subject_token_type: String,
    /// The service account to sign in as. The form names either this or an identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The identity provider to sign in as a person of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<String>,
    /// Accepted and not used: the token is for this organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// If given, `urn:ietf:params:oauth:token-type:access_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_token_type: Option<String>,
}

/// A request to revoke an issued token, as a form (`application/x-www-form-urlencoded`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenRevocationForm {
    /// The token.
    pub token: String,
    /// Accepted and not used: there is one kind of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_type_hint: Option<String>,
}

/// The issued token.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct AccessToken {
    /// The token, for `Authorization: Bearer`.
    pub access_token: String,
    /// Always `urn:ietf:params:oauth:token-type:access_token`.
    pub issued_token_type: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// Its lifetime in seconds.
    #[schema(example = 900)]
    pub expires_in: u64,
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessToken").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

/// An error of an exchange (RFC 6749, section 5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OAuthError {
    /// An error code of the RFC, such as `invalid_grant`.
    #[schema(example = "invalid_grant")]
    pub error: String,
    /// What happened, and what to do.
    pub error_description: String,
    /// The same text, where all other errors of this API have it.
    pub message: String,
    /// Id of the request, which the log contains too.
    pub request_id: String,
}
