//! Keys of agents: an agent signs a JWT with its own ed25519 key (`EdDSA`, RFC 8037).
//!
//! Before the signature is verified, the verifier uses nothing of a token except the name of its
//! key, and of its header only what the signature needs. Every other header member would be an
//! instruction from the sender to the verifier, so a token with other members is rejected.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The DER bytes before the 32 bytes of an ed25519 key (RFC 8410, 4).
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
/// Longest accepted token, in bytes. All valid ones are shorter; a longer one is rejected unread.
const MAX_LENGTH: usize = 2000;

/// The text is not an ed25519 public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not an ed25519 public key in PEM form (`openssl pkey -pubout`)")]
pub struct InvalidAgentKey;

/// The token is not signed by this key, or is not such a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is not signed by the agent's key")]
pub struct InvalidSignature;

/// The public key of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentKey([u8; 32]);

impl AgentKey {
    /// The key with these bytes.
    pub fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses a PEM block.
    ///
    /// # Errors
    ///
    /// [`InvalidAgentKey`] for every other kind of key and every other text.
    pub fn from_pem(text: &str) -> Result<Self, InvalidAgentKey> {
        let body = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let der = body.and_then(|body| STANDARD.decode(body.trim()).ok()).ok_or(InvalidAgentKey)?;
        let key = der.strip_prefix(&PREFIX).ok_or(InvalidAgentKey)?;
        Ok(Self(key.try_into().map_err(|_| InvalidAgentKey)?))
    }

    /// The PEM block, in the one canonical form for storage and comparison.
    pub fn to_pem(self) -> String {
        let der = [PREFIX.as_slice(), &self.0].concat();
        format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der))
    }

    /// SHA-256 of the 32 bytes, in hexadecimal: people compare it, and it is the `kid` of the key's
    /// tokens.
    pub fn fingerprint(self) -> String {
        let mut text = String::with_capacity(64);
        for byte in digest(&SHA256, &self.0).as_ref() {
            text.extend(
                [byte >> 4, byte & 15]
                    .map(|half| char::from(b"0123456789abcdef"[usize::from(half)])),
            );
        }
        text
    }

    /// Verifies the signature and returns the claims. The caller must check the claims.
    ///
    /// # Errors
    ///
    /// [`InvalidSignature`], without a reason, because a reason would help to forge.
    pub fn verify<T: DeserializeOwned>(self, token: &KeyToken<'_>) -> Result<T, InvalidSignature> {
        if token.kid != self.fingerprint() {
            return Err(InvalidSignature);
        }
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(token.signed.as_bytes(), &token.signature)
            .map_err(|_| InvalidSignature)?;
        serde_json::from_slice(&token.claims).map_err(|_| InvalidSignature)
    }
}

/// A parsed token whose signature is not verified yet.
#[derive(Clone, Debug)]
pub struct KeyToken<'a> {
    kid: String,
    signed: &'a str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    kid: String,
    #[serde(default)]
    typ: Option<String>,
}

impl<'a> KeyToken<'a> {
    /// Parses a token; `None` if it does not have the form of one.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        // A repeated member is rejected too, because parsers differ in which one they use.
        let header: Header = serde_json::from_slice(&part(header)?).ok()?;
        let typed = header.typ.is_none_or(|typ| typ.eq_ignore_ascii_case("JWT"));
        if header.alg != "EdDSA" || !typed || header.kid.len() != 64 {
            return None;
        }
        let (claims, signature) = (part(claims)?, part(signature)?);
        Some(Self { kid: header.kid, signed, claims, signature })
    }
}

#[cfg(test)]
#[path = "agent_key_tests.rs"]
mod tests;
