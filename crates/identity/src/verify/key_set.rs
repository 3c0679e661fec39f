//! The keys of an issuer (RFC 7517), and what each of them can verify.

use super::compact::Compact;
use super::strict_json;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Most keys of an issuer.
const MAX_KEYS: usize = 64;

/// The usable keys of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet(Vec<Key>);

/// Why a key set is rejected. The text continues a sentence after the name of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeySet {
    /// It is not a key set.
    #[error("is not a JSON Web Key Set: an object whose `keys` is a list of keys")]
    NoSet,
    /// It has more than the limit.
    #[error("has more than 64 keys")]
    TooMany,
    /// It contains a key with which anyone could sign as the issuer.
    #[error("holds a private or symmetric key; give only public keys, and replace that key")]
    Secret,
    /// It has no key of an accepted kind.
    #[error("has no key for RS256 (2048 to 8192 bits), ES256 or EdDSA (Ed25519)")]
    NoneUsable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    kid: Option<String>,
    material: Material,
}

/// Each kind of key has one algorithm, so a token cannot choose.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Parses the keys in `bytes`.
    ///
    /// # Errors
    ///
    /// [`InvalidKeySet`] if they are not a valid and usable key set.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKeySet> {
        Self::from_value(&strict_json::read(bytes).map_err(|_| InvalidKeySet::NoSet)?)
    }

    /// Parses the keys in `value`. Skips keys of other kinds, because issuers have them too.
    ///
    /// # Errors
    ///
    /// [`InvalidKeySet`] if they are not a valid and usable key set.
    pub fn from_value(value: &Value) -> Result<Self, InvalidKeySet> {
        let keys = value.get("keys").and_then(Value::as_array).ok_or(InvalidKeySet::NoSet)?;
        if keys.len() > MAX_KEYS {
            return Err(InvalidKeySet::TooMany);
        }
        let mut usable = Vec::new();
        for key in keys {
            let key = key.as_object().ok_or(InvalidKeySet::NoSet)?;
            if key.contains_key("d") || key.contains_key("k") {
                return Err(InvalidKeySet::Secret);
            }
            usable.extend(Key::read(key));
        }
        if usable.is_empty() { Err(InvalidKeySet::NoneUsable) } else { Ok(Self(usable)) }
    }

    /// Whether there is a key that could have signed `token`.
    pub(super) fn knows(&self, token: &Compact<'_>) -> bool {
        self.find(token).is_some()
    }

    /// The key of `token`. A token that names no key is matched to the only key.
    fn find(&self, token: &Compact<'_>) -> Option<&Key> {
        match (&token.kid, &self.0[..]) {
            (None, [only]) => Some(only).filter(|key| key.material.alg() == token.alg),
            (None, _) => None,
            (kid, keys) => {
                keys.iter().find(|key| key.kid == *kid && key.material.alg() == token.alg)
            }
        }
    }

    /// Verifies that one of these keys signed `token`.
    ///
    /// # Errors
    ///
    /// The reason, for the log.
    pub(super) fn verify(&self, token: &Compact<'_>) -> Result<(), String> {
        let key =
            self.find(token).ok_or("the issuer has no such key, or not for this algorithm")?;
        if key.material.verifies(token.signed, &token.signature) {
            return Ok(());
        }
        Err("its signature is not valid".to_owned())
    }
}

impl Key {
    /// The key, if it is for signatures of an accepted kind.
    fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let material = match (text("kty")?, text("crv")) {
            ("RSA", None) => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                // An uncompressed point (SEC 1, section 2.3.3).
                (x.len() == 32 && y.len() == 32)
                    .then(|| Material::P256([&[4][..], &x[..], &y[..]].concat()))?
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        let signs = jwk.get("use").is_none_or(|it| it == "sig")
            && jwk.get("alg").is_none_or(|it| it == material.alg())
            && jwk.get("key_ops").is_none_or(|it| {
                it.as_array().is_some_and(|list| list.iter().any(|op| op == "verify"))
            });
        let kid = match jwk.get("kid") {
            None => None,
            Some(kid) => Some(kid.as_str()?.to_owned()),
        };
        (signs && material.is_strong()).then_some(Self { kid, material })
    }
}

impl Material {
    fn alg(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// Verification checks the length of an RSA key too; this check keeps a weak key out of the
    /// set.
    fn is_strong(&self) -> bool {
        match self {
            Self::Rsa { n, e } => {
                let n = n.iter().position(|byte| *byte != 0).map_or(&[][..], |at| &n[at..]);
                (256..=1024).contains(&n.len()) && (1..=4).contains(&e.len())
            }
            Self::P256(_) => true,
            Self::Ed25519(x) => x.len() == 32,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            Self::Ed25519(x) => {
                UnparsedPublicKey::new(&ED25519, x).verify(message, signature).is_ok()
            }
        }
    }
}
