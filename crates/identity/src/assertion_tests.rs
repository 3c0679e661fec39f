use super::*;
use crate::issuer::Issuer;
use crate::system::System;
use crate::test_signer::{Behavior, TestClock, TestSigner};
use secrecy::ExposeSecret;
use std::sync::atomic::Ordering;

struct World {
    issuer: Arc<Issuer>,
    signer: Arc<TestSigner>,
    clock: Arc<TestClock>,
}

impl World {
    fn new() -> Self {
        let (signer, clock) = (TestSigner::new(), TestClock::new());
        let (url, active) = ("https://canyon.example.com", Arc::clone(&signer) as _);
        let issuer = Issuer::new(url, active, vec![], clock.clone(), Arc::new(System));
        Self { issuer: Arc::new(issuer), signer, clock }
    }

    async fn token(&self, of: &AssertionRequest) -> String {
        self.issuer.assertion(of).await.unwrap().expose_secret().to_owned()
    }

    fn signed(&self) -> u32 {
        self.signer.signed.load(Ordering::SeqCst)
    }
}

fn statement(subject: &str, life: u64) -> AssertionRequest {
    AssertionRequest {
        subject: subject.to_owned(),
        audience: "sts.amazonaws.com".to_owned(),
        claims: Map::new(),
        lifetime: Duration::from_secs(life),
    }
}

#[tokio::test]
async fn a_token_is_signed_once_until_shortly_before_it_expires() {
    let world = World::new();
    for (life, kept) in [(300, 240), (60, 30)] {
        let statement = statement("a", life);
        let first = world.token(&statement).await;
        world.clock.advance(kept - 1);
        assert_eq!(world.token(&statement).await, first);
        world.clock.advance(1);
        assert_ne!(world.token(&statement).await, first, "too little of its life is left");
    }
    assert_eq!(world.signed(), 4);
}

#[tokio::test]
async fn another_subject_audience_claim_or_life_is_another_token() {
    let world = World::new();
    let one = statement("a", 300);
    let others = [
        statement("b", 300),
        statement("a", 600),
        AssertionRequest { audience: "other".to_owned(), ..one.clone() },
        AssertionRequest { claims: Map::from_iter([("x".to_owned(), json!(1))]), ..one.clone() },
    ];
    let mut seen = std::collections::HashSet::from([world.token(&one).await]);
    for other in &others {
        assert!(seen.insert(world.token(other).await), "{other:?}");
    }
    world.token(&one).await;
    assert_eq!(world.signed(), 5);
}

#[tokio::test]
async fn of_32_concurrent_callers_one_signs() {
    let world = World::new();
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let issuer = Arc::clone(&world.issuer);
            tokio::spawn(async move { issuer.assertion(&statement("a", 300)).await.unwrap() })
        })
        .collect();
    let mut tokens = std::collections::HashSet::new();
    for task in tasks {
        tokens.insert(task.await.unwrap().expose_secret().to_owned());
    }
    assert_eq!((tokens.len(), world.signed()), (1, 1));
}

#[tokio::test]
async fn a_failure_goes_to_all_waiting_callers_and_is_not_cached() {
    let world = World::new();
    let (one, two) = (statement("a", 300), statement("a", 300));
    world.signer.set(Behavior::Idle);
    let failed = tokio::join!(world.issuer.assertion(&one), world.issuer.assertion(&two));
    assert!(matches!(failed, (Err(_), Err(_))), "{failed:?}");
    assert_eq!(world.signed(), 1, "they shared one attempt");
    world.signer.set(Behavior::Good);
    assert!(world.token(&one).await.starts_with("ey"));
}

#[tokio::test]
async fn a_signature_continues_when_the_first_caller_gives_up() {
    let world = World::new();
    // Loads the key, so that one poll starts the next signature.
    world.token(&statement("b", 300)).await;
    let one = statement("a", 300);
    assert!(world.issuer.assertion(&one).now_or_never().is_none());
    assert_eq!(world.signed(), 2);
    world.token(&one).await;
    assert_eq!(world.signed(), 2);
}

#[tokio::test]
async fn a_caller_cannot_override_a_claim_of_the_issuer() {
    let world = World::new();
    for name in RESERVED {
        let claims = Map::from_iter([(name.to_owned(), json!("x"))]);
        let refused = world
            .issuer
            .assertion(&AssertionRequest { claims, ..statement("a", 300) })
            .await
            .unwrap_err();
        assert!(matches!(&refused, AssertionError::Reserved(found) if found == name), "{refused}");
    }
    assert_eq!(world.signed(), 0);
}
