//! The agent's own ed25519 key, and the tokens that it signs with it (`EdDSA`, RFC 8037).

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use canyon_api::agent::{KEY_AUDIENCE, KEY_TOKEN_LIFETIME_SECONDS, KeyClaims};
use canyon_domain::ids::{AgentId, OrgId};
use canyon_domain::ports::Entropy as _;
use canyon_domain::to_json::to_json_text;
use canyon_identity::agent_key::AgentKey;
use canyon_identity::key_file;
use canyon_identity::system::System;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
/// The most bytes that are read of a key file; ed25519 keys are much shorter.
const MAX_LENGTH: u64 = 16 * 1024;
/// The lifetime of a token in seconds: less than [`KEY_TOKEN_LIFETIME_SECONDS`], because a clock that was set by whole seconds may be
/// behind.
const LIFE: i64 = KEY_TOKEN_LIFETIME_SECONDS - 5;

/// Why the agent has no key.
#[derive(Debug, thiserror::Error)]
pub enum OwnKeyError {
    /// The key file cannot be created or used.
    #[error(transparent)]
    File(#[from] key_file::KeyFileError),
    /// The configured key file cannot be read.
    #[error("cannot read the key in `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not a key.
    #[error(
        "{origin} has no ed25519 private key in PEM form (PKCS #8); make one with: openssl genpkey \
         -algorithm ed25519"
    )]
    NoKey {
        /// The source of the text.
        origin: String,
    },
}

/// The agent's key.
#[derive(Clone)]
pub struct OwnKey {
    pair: Arc<Ed25519KeyPair>,
    public: AgentKey,
}

impl std::fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OwnKey").field(&self.public.fingerprint()).finish()
    }
}

impl OwnKey {
    /// The key in the file at `path`. If the file does not exist, it is created with a new key, readable only for its owner.
    ///
    /// # Errors
    ///
    /// [`OwnKeyError`] when the file cannot be used, or others may read it.
    pub fn load_or_create(path: &Path) -> Result<Self, OwnKeyError> {
        let pem = key_file::load_or_create(path, || new_pem().expose_secret().as_bytes().to_vec())?;
        Self::from_pem(&String::from_utf8_lossy(&pem), &shown(path))
    }

    /// The key in an existing file.
    ///
    /// # Errors
    ///
    /// [`OwnKeyError`] when the file cannot be read, or has no key.
    pub fn load(path: &Path) -> Result<Self, OwnKeyError> {
        use std::io::Read as _;
        let mut pem = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_LENGTH).read_to_string(&mut pem))
            .map_err(|source| OwnKeyError::Read { path: path.display().to_string(), source })?;
        Self::from_pem(&pem, &shown(path))
    }

    /// Reads a PEM block. `origin` names its source in messages.
    ///
    /// # Errors
    ///
    /// [`OwnKeyError::NoKey`] for any other text.
    pub fn from_pem(pem: &str, origin: &str) -> Result<Self, OwnKeyError> {
        let body = pem.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let body = body.map(|body| body.split_whitespace().collect::<String>());
        let der = body.and_then(|body| STANDARD.decode(body).ok());
        // OpenSSL leaves out the public half, which can be computed from the private one.
        let pair = der.and_then(|der| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok());
        let no_key = || OwnKeyError::NoKey { origin: origin.to_owned() };
        let pair = pair.ok_or_else(no_key)?;
        let bytes = <[u8; 32]>::try_from(pair.public_key().as_ref()).map_err(|_| no_key())?;
        Ok(Self { pair: Arc::new(pair), public: AgentKey::of(bytes) })
    }

    /// The public half.
    pub fn public(&self) -> AgentKey {
        self.public
    }

    /// A signed token for one request, valid for `LIFE` seconds from `now`.
    pub fn token(&self, agent: &AgentId, org: &OrgId, now: Timestamp) -> SecretString {
        let claims = KeyClaims {
            sub: agent.to_string(),
            aud: format!("{KEY_AUDIENCE}{org}"),
            iat: now.as_second(),
            exp: now.as_second() + LIFE,
            jti: System.id(now),
        };
        let header = json!({"alg": "EdDSA", "kid": self.public.fingerprint(), "typ": "JWT"});
        let part = |value: String| URL_SAFE_NO_PAD.encode(value);
        let signed = format!("{}.{}", part(header.to_string()), part(to_json_text(&claims)));
        let signature = self.pair.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())).into()
    }
}

/// A new key, as PEM.
///
/// # Panics
///
/// When the operating system has no random numbers.
pub fn new_pem() -> SecretString {
    // Without random numbers the key could be guessed, so the process must stop.
    #[expect(clippy::expect_used, reason = "a process without random numbers must not go on")]
    let der = Ed25519KeyPair::generate()
        .and_then(|pair| pair.to_pkcs8v1())
        .expect("the operating system has random numbers");
    format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der.as_ref())).into()
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_identity::agent_key::KeyToken;

    #[test]
    fn a_key_is_created_once_and_canyon_verifies_its_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.key");
        let key = OwnKey::load_or_create(&path).unwrap();
        assert_eq!(OwnKey::load_or_create(&path).unwrap().public(), key.public());
        assert_eq!(OwnKey::load(&path).unwrap().public(), key.public());
        let now = "2026-01-01T10:00:00Z".parse().unwrap();
        let token = key.token(&"east-1".parse().unwrap(), &"acme".parse().unwrap(), now);
        let token = KeyToken::parse(token.expose_secret()).unwrap();
        let claims: KeyClaims = key.public().verify(&token).unwrap();
        assert_eq!((claims.sub.as_str(), claims.aud.as_str()), ("east-1", "canyon:acme"));
        assert!(
            claims.exp - claims.iat <= KEY_TOKEN_LIFETIME_SECONDS && claims.iat == now.as_second()
        );
    }

    #[test]
    fn a_key_of_openssl_is_accepted_and_other_texts_are_not() {
        // `openssl genpkey -algorithm ed25519`, RFC 8410, 10.3.
        let pem = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\n\
                      MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                      -----END PUBLIC KEY-----\n";
        assert_eq!(OwnKey::from_pem(pem, "it").unwrap().public().to_pem(), public);
        for wrong in ["", public, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            let error = OwnKey::from_pem(wrong, "`x`").unwrap_err().to_string();
            assert!(error.starts_with("`x` has no ed25519"), "{error}");
        }
    }
}
