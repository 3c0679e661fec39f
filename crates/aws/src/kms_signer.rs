//! A signing key in KMS. Its private half never leaves KMS.

use crate::kms_failure::KmsFailure;
use async_trait::async_trait;
use aws_sdk_kms::Client;
use aws_sdk_kms::operation::get_public_key::GetPublicKeyOutput;
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::{KeyUsageType, MessageType, SigningAlgorithmSpec};
use canyon_identity::jwk::Jwk;
use canyon_identity::signer::{Signer, SignerError};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

const RS256: SigningAlgorithmSpec = SigningAlgorithmSpec::RsassaPkcs1V15Sha256;
/// Longest message that KMS hashes itself, in bytes (AWS KMS API Reference, Sign).
const MAX_RAW_BYTES: usize = 4_096;

/// An RSA key in KMS that signs and verifies.
#[derive(Debug)]
pub struct KmsSigner {
    kms: Client,
    key: String,
    known: OnceCell<PublicKey>,
}

#[derive(Clone, Debug)]
struct PublicKey {
    /// The key of the public half. An alias may point to another key by the time of signing.
    arn: String,
    jwk: Jwk,
}

impl KmsSigner {
    /// The key with this id, ARN or alias. The first use calls KMS.
    pub fn new(kms: Client, key: impl Into<String>) -> Self {
        Self { kms, key: key.into(), known: OnceCell::new() }
    }

    async fn known(&self) -> Result<&PublicKey, SignerError> {
        self.known.get_or_try_init(|| self.fetch()).await
    }

    async fn fetch(&self) -> Result<PublicKey, SignerError> {
        let answer = self.kms.get_public_key().key_id(&self.key).send().await;
        self.read(&answer.map_err(|error| self.error(KmsFailure::of(error)))?)
    }

    fn read(&self, answer: &GetPublicKeyOutput) -> Result<PublicKey, SignerError> {
        let spec = answer.key_spec().map_or("unknown", |spec| spec.as_str());
        let signs = answer.key_usage() == Some(&KeyUsageType::SignVerify);
        let jwk = answer.public_key().and_then(|der| Jwk::from_spki(der.as_ref()).ok());
        match (jwk, answer.key_id()) {
            (Some(jwk), Some(arn)) if signs && answer.signing_algorithms().contains(&RS256) => {
                Ok(PublicKey { arn: arn.to_owned(), jwk })
            }
            _ => Err(self.unusable(format!(
                "its key spec is `{spec}`; create a key with the key spec RSA_2048 and the usage \
                 SIGN_VERIFY"
            ))),
        }
    }

    fn unusable(&self, reason: String) -> SignerError {
        SignerError::Unusable { key: self.key.clone(), reason }
    }

    fn error(&self, failure: KmsFailure) -> SignerError {
        match failure {
            KmsFailure::Unusable(reason) => self.unusable(reason),
            KmsFailure::Busy(source) | KmsFailure::Refused(source) => {
                SignerError::Failed { key: self.key.clone(), source }
            }
        }
    }
}

#[async_trait]
impl Signer for KmsSigner {
    fn name(&self) -> String {
        self.key.clone()
    }

    async fn public_jwk(&self) -> Result<Jwk, SignerError> {
        Ok(self.known().await?.jwk.clone())
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        let (kind, message) = if message.len() <= MAX_RAW_BYTES {
            (MessageType::Raw, message.to_vec())
        } else {
            (MessageType::Digest, Sha256::digest(message).to_vec())
        };
        let request = self
            .kms
            .sign()
            .key_id(&self.known().await?.arn)
            .signing_algorithm(RS256)
            .message_type(kind)
            .message(Blob::new(message));
        let answer = request.send().await.map_err(|error| self.error(KmsFailure::of(error)))?;
        let signature = answer.signature.ok_or_else(|| SignerError::Failed {
            key: self.key.clone(),
            source: "the answer has no signature".into(),
        })?;
        Ok(signature.into_inner())
    }
}
