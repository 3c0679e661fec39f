//! Canyon as an OIDC issuer: its signing key, and what it publishes about it.
//!
//! RS256, because that is the one algorithm that every cloud's federation takes (Microsoft Entra
//! names no other as supported).

use crate::key_file::{self, KeyFileError};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The issuer of an installation, with its key in a file. The key is made when it is first asked
/// for: that takes a tenth of a second, which a start need not wait for.
#[derive(Debug)]
pub struct FileIssuer {
    url: String,
    path: PathBuf,
    jwk: Mutex<Option<Value>>,
}

impl FileIssuer {
    /// The issuer whose address is `url` and whose key is in the file at `path`.
    pub fn new(url: &str, path: &Path) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self { url, path: path.to_owned(), jwk: Mutex::new(None) }
    }

    /// The discovery document (OpenID Connect Discovery 1.0, section 3).
    pub fn discovery(&self) -> Value {
        json!({
            "issuer": self.url,
            "jwks_uri": format!("{}/.well-known/jwks", self.url),
            "subject_types_supported": ["public"],
            "response_types_supported": ["id_token"],
            "claims_supported": ["sub", "aud", "iss", "exp", "iat", "nbf", "jti"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid"],
        })
    }

    /// The public keys (RFC 7517).
    ///
    /// # Errors
    ///
    /// [`KeyFileError`] when the key can be neither read nor made.
    pub fn jwks(&self) -> Result<Value, KeyFileError> {
        let mut known = self.jwk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if known.is_none() {
            *known = Some(public_jwk(&self.key()?));
        }
        Ok(json!({ "keys": [known.clone()] }))
    }

    fn key(&self) -> Result<KeyPair, KeyFileError> {
        let damaged = || KeyFileError::Damaged { path: self.path.clone() };
        let mut failed = false;
        let pkcs8 = key_file::load_or_create(&self.path, || {
            let made = KeyPair::generate(KeySize::Rsa2048);
            let der = made
                .and_then(|key| AsDer::<Pkcs8V1Der<'_>>::as_der(&key).map(|d| d.as_ref().to_vec()));
            der.unwrap_or_else(|_| {
                failed = true;
                Vec::new()
            })
        })?;
        if failed {
            return Err(damaged());
        }
        KeyPair::from_pkcs8(&pkcs8).map_err(|_| damaged())
    }
}

/// The public half as a JWK. Its `kid` is the key's thumbprint (RFC 7638), so it needs no record.
fn public_jwk(key: &KeyPair) -> Value {
    let public = key.public_key();
    let n = URL_SAFE_NO_PAD.encode(public.modulus().big_endian_without_leading_zero());
    let e = URL_SAFE_NO_PAD.encode(public.exponent().big_endian_without_leading_zero());
    let canonical = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
    let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()));
    json!({ "alg": "RS256", "kty": "RSA", "use": "sig", "n": n, "e": e, "kid": kid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_outlives_the_process_and_only_its_public_half_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issuer.pk8");
        let first = FileIssuer::new("http://127.0.0.1:8080/", &path).jwks().unwrap();
        let second = FileIssuer::new("http://127.0.0.1:8080", &path).jwks().unwrap();
        assert_eq!(first, second);
        let key = &first["keys"][0];
        let members: Vec<_> = key.as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, ["alg", "e", "kid", "kty", "n", "use"]);
        assert_eq!(key["e"], "AQAB");
        assert_eq!(URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap().len(), 256);
    }
}
