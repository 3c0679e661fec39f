//! The number of calls to an issuer is limited, whatever tokens callers send.

use crate::issuer::{AUDIENCE, Issuer, SUBJECT, TestClock, URL, judge, policy};
use async_trait::async_trait;
use canyon_domain::ports::Clock as _;
use canyon_domain::trust_policy::{IssuerUrl, TrustPolicy};
use canyon_identity::verify::{Fetch, FetchError, IssuerKeys, KeySet, Refusal, Verifier};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An issuer that counts calls.
struct Counting {
    jwks: Mutex<Option<Value>>,
    asked: AtomicU32,
}

#[async_trait]
impl Fetch for Counting {
    async fn fetch(&self, _: &IssuerUrl) -> Result<KeySet, FetchError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let jwks = self.jwks.lock().unwrap().clone();
        jwks.map(|jwks| KeySet::from_value(&jwks).unwrap())
            .ok_or_else(|| FetchError::Failed("it does not answer".to_owned()))
    }
}

struct Setup {
    issuer: Issuer,
    source: Arc<Counting>,
    clock: Arc<TestClock>,
    verifier: Verifier,
    policy: TrustPolicy,
}

impl Setup {
    fn new() -> Self {
        let (issuer, clock) = (Issuer::new(), TestClock::new());
        let jwks = json!({ "keys": [issuer.rsa_jwk("one")] });
        let source = Arc::new(Counting { jwks: Mutex::new(Some(jwks)), asked: AtomicU32::new(0) });
        let keys = IssuerKeys::new(source.clone(), clock.clone());
        let verifier = Verifier::new(Arc::new(keys), clock.clone());
        Self { issuer, source, clock, verifier, policy: policy(None) }
    }

    fn token(&self, kid: &str) -> String {
        let now = self.clock.now().as_second();
        let claims = json!({ "iss": URL, "aud": AUDIENCE, "sub": SUBJECT, "exp": now + 600 });
        let header = json!({ "alg": "RS256", "kid": kid });
        self.issuer.sign(&header.to_string(), &claims.to_string(), "rsa")
    }

    async fn judge(&self, kid: &str) -> Result<usize, Refusal> {
        judge(&self.verifier, &self.token(kid), &self.policy).await
    }

    fn asked(&self) -> u32 {
        self.source.asked.load(Ordering::SeqCst)
    }

    fn publishes(&self, kids: &[&str]) {
        let keys: Vec<_> = kids.iter().map(|kid| self.issuer.rsa_jwk(kid)).collect();
        *self.source.jwks.lock().unwrap() = Some(json!({ "keys": keys }));
    }
}

#[tokio::test]
async fn ten_thousand_unknown_keys_cause_at_most_two_calls() {
    let setup = Setup::new();
    assert_eq!(setup.judge("one").await, Ok(0));
    let tokens: Vec<_> = (0..10_000).map(|n| setup.token(&format!("unknown-{n}"))).collect();
    let policy = &setup.policy;
    let judged = join_all(tokens.iter().map(|token| judge(&setup.verifier, token, policy))).await;
    assert!(judged.iter().all(Result::is_err));
    assert!(setup.asked() <= 2, "{}", setup.asked());
    setup.clock.advance(59);
    assert!(setup.judge("unknown").await.is_err());
    assert_eq!(setup.judge("one").await, Ok(0));
    assert!(setup.asked() <= 2, "{}", setup.asked());
}

#[tokio::test]
async fn concurrent_callers_wait_for_one_answer() {
    let setup = Setup::new();
    let judged = join_all((0..100).map(|_| setup.judge("one"))).await;
    assert!(judged.iter().all(Result::is_ok));
    assert_eq!(setup.asked(), 1);
}

#[tokio::test]
async fn a_new_key_is_found_within_a_minute_and_a_withdrawn_one_expires_within_ten() {
    let setup = Setup::new();
    assert_eq!(setup.judge("one").await, Ok(0));
    setup.publishes(&["one", "two"]);
    assert!(setup.judge("two").await.is_err(), "the last call was less than a minute ago");
    setup.clock.advance(60);
    assert_eq!(setup.judge("two").await, Ok(0));
    setup.publishes(&["two"]);
    setup.clock.advance(599);
    assert_eq!(setup.judge("one").await, Ok(0));
    setup.clock.advance(1);
    assert!(setup.judge("one").await.is_err());
    assert_eq!(setup.judge("two").await, Ok(0));
}

#[tokio::test]
async fn keys_of_an_issuer_that_does_not_answer_are_used_for_an_hour_and_fetched_once_a_minute() {
    let setup = Setup::new();
    assert_eq!(setup.judge("one").await, Ok(0));
    *setup.source.jwks.lock().unwrap() = None;
    for minute in 1..60 {
        setup.clock.advance(60);
        assert_eq!(setup.judge("one").await, Ok(0), "after {minute} min");
        assert_eq!(setup.judge("one").await, Ok(0));
    }
    assert!(setup.asked() <= 60, "{}", setup.asked());
    setup.clock.advance(60);
    assert!(setup.judge("one").await.is_err());
}

#[tokio::test]
async fn a_first_fetch_that_failed_is_retried_after_ten_seconds() {
    let setup = Setup::new();
    *setup.source.jwks.lock().unwrap() = None;
    let judged = join_all((0..100).map(|_| setup.judge("one"))).await;
    assert!(judged.iter().all(Result::is_err));
    assert_eq!(setup.asked(), 1);
    setup.publishes(&["one"]);
    setup.clock.advance(10);
    assert_eq!(setup.judge("one").await, Ok(0));
    assert_eq!(setup.asked(), 2);
}
