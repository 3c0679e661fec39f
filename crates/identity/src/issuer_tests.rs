use super::*;
use crate::system::System;
use crate::test_signer::{Behavior, TestClock, TestSigner};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use secrecy::ExposeSecret;
use serde_json::Map;
use std::sync::atomic::Ordering;

const URL: &str = "https://canyon.example.com";

fn issuer(active: &Arc<TestSigner>, retired: &[&Arc<TestSigner>], clock: Arc<TestClock>) -> Issuer {
    let retired = retired.iter().map(|signer| Arc::clone(signer) as _).collect();
    Issuer::new(&format!("{URL}/"), Arc::clone(active) as _, retired, clock, Arc::new(System))
}

fn statement() -> AssertionRequest {
    AssertionRequest {
        subject: "org:1:runner:2".to_owned(),
        audience: "sts.amazonaws.com".to_owned(),
        claims: Map::from_iter([("runner".to_owned(), json!("my-runner"))]),
        lifetime: Duration::from_mins(10),
    }
}

/// Verifies `token` with the published `keys` by another implementation, and returns its claims.
fn verified(token: &str, keys: &Value) -> Result<Value, String> {
    let keys: JwkSet = serde_json::from_value(keys.clone()).unwrap();
    let kid = decode_header(token).map_err(|error| error.to_string())?.kid.unwrap();
    let key = keys.find(&kid).ok_or("no such key")?;
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&["sts.amazonaws.com"]);
    validation.set_issuer(&[URL]);
    validation.set_required_spec_claims(&["exp", "nbf", "aud", "iss", "sub"]);
    // The tests' clock does not advance, so each test compares the times itself.
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    let decoded = decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &validation);
    decoded.map(|token| token.claims).map_err(|error| error.to_string())
}

#[tokio::test]
async fn another_implementation_verifies_a_token_with_the_published_key() {
    let issuer = issuer(&TestSigner::new(), &[], TestClock::new());
    let token = issuer.assertion(&statement()).await.unwrap();
    let token = token.expose_secret();
    let keys = issuer.jwks().await.unwrap();
    let mut claims = verified(token, &keys).unwrap();
    let jti = claims.as_object_mut().unwrap().remove("jti").unwrap();
    assert!(jti.as_str().unwrap().parse::<uuid::Uuid>().is_ok(), "{jti}");
    // 2026-01-15T12:00:00Z.
    let now = 1_768_478_400;
    assert_eq!(
        claims,
        json!({
            "iss": URL, "sub": "org:1:runner:2", "aud": "sts.amazonaws.com",
            "iat": now, "nbf": now, "exp": now + 600, "runner": "my-runner",
        })
    );
    let header = serde_json::to_value(decode_header(token).unwrap()).unwrap();
    assert_eq!((&header["alg"], &header["typ"]), (&json!("RS256"), &json!("JWT")));
    assert_eq!(header["kid"], keys["keys"][0]["kid"]);

    let (message, signature) = token.rsplit_once('.').unwrap();
    let swapped = if signature.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{message}.{swapped}{}", &signature[1..]);
    assert_eq!(verified(&forged, &keys), Err("InvalidSignature".to_owned()));
}

#[tokio::test]
async fn only_public_halves_are_published() {
    let issuer = issuer(&TestSigner::new(), &[], TestClock::new());
    let keys = issuer.jwks().await.unwrap();
    let mut members: Vec<_> = keys["keys"][0].as_object().unwrap().keys().cloned().collect();
    // Another crate of the build may set serde_json to keep the order of insertion.
    members.sort();
    assert_eq!(members, ["alg", "e", "kid", "kty", "n", "use"]);
    let discovery = issuer.discovery();
    assert_eq!(discovery["issuer"], URL);
    assert_eq!(discovery["jwks_uri"], format!("{URL}/.well-known/jwks"));
}

#[tokio::test]
async fn tokens_of_the_old_and_the_new_key_are_valid_throughout_a_rotation() {
    let (old, new) = (TestSigner::new(), TestSigner::new());
    let steps = [
        issuer(&old, &[], TestClock::new()),
        issuer(&old, &[&new], TestClock::new()),
        issuer(&new, &[&old], TestClock::new()),
        issuer(&new, &[], TestClock::new()),
    ];
    // A verifier may have the keys of the step before or after, because caches live for a while.
    for (position, step) in steps.iter().enumerate() {
        let token = step.assertion(&statement()).await.unwrap();
        for seen in &steps[position.saturating_sub(1)..steps.len().min(position + 2)] {
            verified(token.expose_secret(), &seen.jwks().await.unwrap()).unwrap();
        }
    }
    let token = steps[0].assertion(&statement()).await.unwrap();
    let withdrawn = verified(token.expose_secret(), &steps[3].jwks().await.unwrap());
    assert_eq!(withdrawn, Err("no such key".to_owned()));
    let twice = issuer(&new, &[&new], TestClock::new()).jwks().await.unwrap();
    assert_eq!(twice["keys"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_disabled_retired_key_is_left_out_until_it_is_enabled_again() {
    let (old, new, clock) = (TestSigner::new(), TestSigner::new(), TestClock::new());
    let issuer = issuer(&new, &[&old], clock.clone());
    let published = async || issuer.jwks().await.unwrap()["keys"].as_array().unwrap().len();
    old.set(Behavior::Disabled);
    assert_eq!(published().await, 1);
    old.set(Behavior::Good);
    let requests = old.requests.load(Ordering::SeqCst);
    assert_eq!(published().await, 1, "the key is not requested again for every call");
    assert_eq!(old.requests.load(Ordering::SeqCst), requests);
    clock.advance(60);
    assert_eq!(published().await, 2);
}

#[tokio::test]
async fn no_key_set_is_published_without_a_key_whose_tokens_are_valid() {
    let (old, new) = (TestSigner::new(), TestSigner::new());
    let issuer = issuer(&new, &[&old], TestClock::new());
    for (signer, behavior) in
        [(&old, Behavior::Silent), (&new, Behavior::Silent), (&new, Behavior::Disabled)]
    {
        signer.set(behavior);
        assert!(issuer.jwks().await.is_err(), "{behavior:?}");
        signer.set(Behavior::Good);
    }
    assert_eq!(issuer.jwks().await.unwrap()["keys"].as_array().unwrap().len(), 2);
}
