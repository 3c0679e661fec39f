//! Keys of agents: a JWT that an agent signs with its own ed25519 key (`EdDSA`, RFC 8037).
//!
//! Nothing of such a token is believed before its signature is verified, except which key it says it is
//! by; and of its header only what the signature needs is read. Everything else in a header is an
//! order to the verifier by whoever sent it, so a token with more in it is refused.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What stands before the 32 bytes of an ed25519 key in its DER form (RFC 8410, 4).
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
/// Longer than any of ours; a longer text is refused unread.
const MAX_LENGTH: usize = 2000;

/// The text is no ed25519 public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not an ed25519 public key in PEM form (`openssl pkey -pubout`)")]
pub struct InvalidAgentKey;

/// The token is not signed by that key, or is no such token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is not signed by the agent's key")]
pub struct Forged;

/// The public key of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentKey([u8; 32]);

impl AgentKey {
    /// The key that these bytes are.
    pub fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads a PEM block.
    ///
    /// # Errors
    ///
    /// [`InvalidAgentKey`] for every other kind of key, and every other text.
    pub fn from_pem(text: &str) -> Result<Self, InvalidAgentKey> {
        let body = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let der = body.and_then(|body| STANDARD.decode(body.trim()).ok()).ok_or(InvalidAgentKey)?;
        let key = der.strip_prefix(&PREFIX).ok_or(InvalidAgentKey)?;
        Ok(Self(key.try_into().map_err(|_| InvalidAgentKey)?))
    }

    /// The PEM block, in the one form in which keys are kept and compared.
    pub fn to_pem(self) -> String {
        let der = [PREFIX.as_slice(), &self.0].concat();
        format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der))
    }

    /// SHA-256 of the 32 bytes, in hexadecimal: what people compare, and the `kid` of its tokens.
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

    /// The claims of a token that this key has signed. Whether they hold is for the caller to say.
    ///
    /// # Errors
    ///
    /// [`Forged`], without saying why: that would help to forge.
    pub fn verify<T: DeserializeOwned>(self, token: &KeyToken<'_>) -> Result<T, Forged> {
        if token.kid != self.fingerprint() {
            return Err(Forged);
        }
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(token.signed.as_bytes(), &token.signature)
            .map_err(|_| Forged)?;
        serde_json::from_slice(&token.claims).map_err(|_| Forged)
    }
}

/// A token that was taken apart, and not yet verified.
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
    /// Takes a token apart; `None` if it has not the form of one.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        // A member that is there twice is refused too: readers differ in which one counts.
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
