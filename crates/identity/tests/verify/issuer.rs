//! An issuer that signs everything that a test passes, valid or not.

use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::ports::Clock;
use canyon_domain::trust_policy::{ClaimMatching, IssuerUrl, PolicyRequest, TrustPolicy};
use canyon_identity::verify::{Fetch, FetchError, IssuerKeys, KeySet, Refusal, Verifier};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(crate) const URL: &str = "https://issuer.example.com";
pub(crate) const AUDIENCE: &str = "canyon-acme";
pub(crate) const SUBJECT: &str = "system:serviceaccount:canyon:agent";

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// One key of each accepted kind.
pub(crate) struct Issuer {
    pub(crate) rsa: RsaKeyPair,
    pub(crate) p256: EcdsaKeyPair,
    pub(crate) ed25519: Ed25519KeyPair,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            ed25519: Ed25519KeyPair::generate().unwrap(),
        }
    }

    pub(crate) fn rsa_jwk(&self, kid: &str) -> Value {
        let public = self.rsa.public_key();
        let n = encode(public.modulus().big_endian_without_leading_zero());
        let e = encode(public.exponent().big_endian_without_leading_zero());
        json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": n, "e": e })
    }

    pub(crate) fn jwks(&self) -> Value {
        let point = self.p256.public_key().as_ref();
        let ed25519 = encode(self.ed25519.public_key().as_ref());
        json!({ "keys": [
            self.rsa_jwk("rsa"),
            { "kty": "EC", "crv": "P-256", "kid": "ec", "x": encode(&point[1..33]), "y": encode(&point[33..]) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": ed25519 },
        ] })
    }

    /// A token with this header and payload, signed by the key named `by`.
    pub(crate) fn sign(&self, header: &str, payload: &str, by: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(payload));
        let signature = self.signature(signed.as_bytes(), by);
        format!("{signed}.{}", encode(signature))
    }

    pub(crate) fn signature(&self, message: &[u8], by: &str) -> Vec<u8> {
        let rsa = |encoding: &'static dyn RsaEncoding| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        };
        match by {
            "rsa" => rsa(&RSA_PKCS1_SHA256),
            "rsa512" => rsa(&RSA_PKCS1_SHA512),
            "pss" => rsa(&RSA_PSS_SHA256),
            "ec" => self.p256.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            "ed" => self.ed25519.sign(message).as_ref().to_vec(),
            other => panic!("no key `{other}`"),
        }
    }

    /// The usual policy, which contains the keys.
    pub(crate) fn policy(&self) -> TrustPolicy {
        policy(Some(self.jwks()))
    }
}

pub(crate) fn policy(jwks: Option<Value>) -> TrustPolicy {
    let order = PolicyRequest {
        issuer: URL.to_owned(),
        audience: AUDIENCE.to_owned(),
        bound_claims_type: ClaimMatching::String,
        bound_claims: BTreeMap::from([("sub".to_owned(), vec![SUBJECT.to_owned()])]),
        jwks,
        scoped_roles: Vec::new(),
    };
    TrustPolicy::new(order, |_| true).unwrap()
}

/// A clock that a test moves.
pub(crate) struct TestClock(Mutex<Timestamp>);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new("2026-01-15T12:00:00Z".parse().unwrap())))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        *self.0.lock().unwrap() += SignedDuration::from_secs(seconds);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// A source of keys that must not be called.
struct NoFetch;

#[async_trait]
impl Fetch for NoFetch {
    async fn fetch(&self, issuer: &IssuerUrl) -> Result<KeySet, FetchError> {
        panic!("the keys of {issuer} were fetched")
    }
}

/// A verifier that fetches no keys.
pub(crate) fn offline(clock: Arc<dyn Clock>) -> Verifier {
    Verifier::new(Arc::new(IssuerKeys::new(Arc::new(NoFetch), clock.clone())), clock)
}

/// Whether a token matches the usual policy.
pub(crate) async fn judge(
    verifier: &Verifier,
    token: &str,
    policy: &TrustPolicy,
) -> Result<usize, Refusal> {
    verifier.verify(token, std::slice::from_ref(policy)).await.map(|admission| admission.policy)
}
