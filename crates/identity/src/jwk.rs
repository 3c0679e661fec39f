//! RSA public keys as JSON Web Keys (RFC 7517, RFC 7518).

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::PublicKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The public half of a signing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwk {
    n: String,
    e: String,
    kid: String,
}

/// The bytes are not an RSA public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not an RSA public key")]
pub struct NotRsa;

impl Jwk {
    /// Parses an X.509 `SubjectPublicKeyInfo` (DER), the form of KMS.
    ///
    /// # Errors
    ///
    /// [`NotRsa`] if the bytes are anything else.
    pub fn from_spki(der: &[u8]) -> Result<Self, NotRsa> {
        PublicKey::from_der(der).map(|key| Self::of(&key)).map_err(|_| NotRsa)
    }

    /// The key as JWK. Its `kid` is its thumbprint (RFC 7638), so Canyon need not store it.
    pub fn of(key: &PublicKey) -> Self {
        let n = URL_SAFE_NO_PAD.encode(key.modulus().big_endian_without_leading_zero());
        let e = URL_SAFE_NO_PAD.encode(key.exponent().big_endian_without_leading_zero());
        let canonical = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
        let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()));
        Self { n, e, kid }
    }

    /// The name of the key in the headers of its tokens.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The key as a member of a key set.
    pub fn to_value(&self) -> Value {
        let Self { n, e, kid } = self;
        json!({ "alg": "RS256", "kty": "RSA", "use": "sig", "n": n, "e": e, "kid": kid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::KeyPair as _;

    #[test]
    fn a_key_is_equal_from_spki_and_from_the_key_pair() {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let spki: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
        assert_eq!(Jwk::from_spki(spki.as_ref()), Ok(Jwk::of(key.public_key())));
        assert_eq!(Jwk::from_spki(b"no key"), Err(NotRsa));
    }

    #[test]
    fn the_thumbprint_is_that_of_the_standard() {
        // RFC 7638, section 3.1.
        let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
        let modulus = URL_SAFE_NO_PAD.decode(n).unwrap();
        // SEQUENCE { INTEGER n, INTEGER 65537 } (RFC 8017, appendix A.1.1).
        let mut der = vec![0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0x00];
        der.extend(modulus);
        der.extend([0x02, 0x03, 0x01, 0x00, 0x01]);
        let jwk = Jwk::of(&PublicKey::from_der(&der).unwrap());
        assert_eq!(jwk.kid(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
        assert_eq!(jwk.to_value()["n"], n);
    }
}
