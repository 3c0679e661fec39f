//! Canyon's signing keys: in KMS, or in a file for `canyon local`.

use crate::jwk::Jwk;
use async_trait::async_trait;
use std::error::Error;

/// A key that signs RS256, the only algorithm that the federation of every cloud accepts (Microsoft
/// Entra lists no other as supported).
#[async_trait]
pub trait Signer: Send + Sync {
    /// The name of the key in logs.
    fn name(&self) -> String;

    /// Its public half.
    ///
    /// # Errors
    ///
    /// [`SignerError`] if the key is not available.
    async fn public_jwk(&self) -> Result<Jwk, SignerError>;

    /// The signature of `message`: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3).
    ///
    /// # Errors
    ///
    /// [`SignerError`] if the key does not sign.
    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError>;
}

/// Why a key does not sign or return its public half.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// The key is disabled, deleted, or of another kind. A retry does not help until an
    /// administrator changes that.
    #[error("the signing key `{key}` cannot be used: {reason}")]
    Unusable {
        /// The key.
        key: String,
        /// The cause, and what to do.
        reason: String,
    },
    /// The key did not answer this time.
    #[error("the signing key `{key}` did not answer")]
    Failed {
        /// The key.
        key: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}
