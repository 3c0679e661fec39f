//! How often an issuer is asked, whatever callers send.

use crate::issuer::{AUDIENCE, Issuer, SUBJECT, TestClock, URL, judge, policy};
use async_trait::async_trait;
use canyon_domain::seam::Clock as _;
use canyon_domain::trust_policy::{IssuerUrl, TrustPolicy};
use canyon_identity::verify::{Fetch, FetchError, IssuerKeys, KeySet, Refusal, Verifier};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An issuer that counts who asks.
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

struct Bench {
    issuer: Issuer,
    source: Arc<Counting>,
    clock: Arc<TestClock>,
    verifier: Verifier,
    policy: TrustPolicy,
}

impl Bench {
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
async fn ten_thousand_unknown_keys_are_at_most_two_calls() {
    let bench = Bench::new();
    assert_eq!(bench.judge("one").await, Ok(0));
    let tokens: Vec<_> = (0..10_000).map(|n| bench.token(&format!("unknown-{n}"))).collect();
    let policy = &bench.policy;
    let judged = join_all(tokens.iter().map(|token| judge(&bench.verifier, token, policy))).await;
    assert!(judged.iter().all(Result::is_err));
    assert!(bench.asked() <= 2, "{}", bench.asked());
    bench.clock.advance(59);
    assert!(bench.judge("unknown").await.is_err());
    assert_eq!(bench.judge("one").await, Ok(0));
    assert!(bench.asked() <= 2, "{}", bench.asked());
}

#[tokio::test]
async fn all_who_come_at_once_wait_for_one_answer() {
    let bench = Bench::new();
    let judged = join_all((0..100).map(|_| bench.judge("one"))).await;
    assert!(judged.iter().all(Result::is_ok));
    assert_eq!(bench.asked(), 1);
}

#[tokio::test]
async fn a_new_key_is_found_within_a_minute_and_a_withdrawn_one_forgotten_within_ten() {
    let bench = Bench::new();
    assert_eq!(bench.judge("one").await, Ok(0));
    bench.publishes(&["one", "two"]);
    assert!(bench.judge("two").await.is_err(), "it was asked a moment ago");
    bench.clock.advance(60);
    assert_eq!(bench.judge("two").await, Ok(0));
    bench.publishes(&["two"]);
    bench.clock.advance(599);
    assert_eq!(bench.judge("one").await, Ok(0));
    bench.clock.advance(1);
    assert!(bench.judge("one").await.is_err());
    assert_eq!(bench.judge("two").await, Ok(0));
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_believed_for_an_hour_and_asked_once_a_minute() {
    let bench = Bench::new();
    assert_eq!(bench.judge("one").await, Ok(0));
    *bench.source.jwks.lock().unwrap() = None;
    for minute in 1..60 {
        bench.clock.advance(60);
        assert_eq!(bench.judge("one").await, Ok(0), "after {minute} min");
        assert_eq!(bench.judge("one").await, Ok(0));
    }
    assert!(bench.asked() <= 60, "{}", bench.asked());
    bench.clock.advance(60);
    assert!(bench.judge("one").await.is_err());
}

#[tokio::test]
async fn an_issuer_that_never_answered_is_asked_again_after_ten_seconds() {
    let bench = Bench::new();
    *bench.source.jwks.lock().unwrap() = None;
    let judged = join_all((0..100).map(|_| bench.judge("one"))).await;
    assert!(judged.iter().all(Result::is_err));
    assert_eq!(bench.asked(), 1);
    bench.publishes(&["one"]);
    bench.clock.advance(10);
    assert_eq!(bench.judge("one").await, Ok(0));
    assert_eq!(bench.asked(), 2);
}
