//! What signs for Canyon: a key in KMS, or in a file on a laptop.

use crate::jwk::Jwk;
use async_trait::async_trait;
use std::error::Error;

/// A key that signs RS256, the one algorithm that every cloud's federation takes (Microsoft Entra
/// names no other as supported).
#[async_trait]
pub trait Signer: Send + Sync {
    /// What the key is called in logs.
    fn name(&self) -> String;

    /// Its public half.
    ///
    /// # Errors
    ///
    /// [`SignerError`] when it cannot be had.
    async fn public_jwk(&self) -> Result<Jwk, SignerError>;

    /// The signature of `message`: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3).
    ///
    /// # Errors
    ///
    /// [`SignerError`] when there is none.
    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError>;
}

/// Why a key does not sign or show its public half.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// It will not until somebody changes something: it is disabled, deleted, or of another kind.
    #[error("the signing key `{key}` cannot be used: {reason}")]
    Unusable {
        /// The key.
        key: String,
        /// Why, and what to do.
        reason: String,
    },
    /// It did not this time.
    #[error("the signing key `{key}` did not answer")]
    Failed {
        /// The key.
        key: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}
