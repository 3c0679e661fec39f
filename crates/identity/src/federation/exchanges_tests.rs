use super::*;
use crate::test_signer::TestClock;
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use futures::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use uuid::Uuid;

type Exchanged = Result<AccessToken, FederationError>;

fn key(number: u128) -> Key {
    let who = RunnerIdentity {
        org: OrgUuid(Uuid::from_u128(1)),
        runner: RunnerUuid(Uuid::from_u128(number)),
    };
    Key::new(who, ["scope"])
}

/// Exchanges whose results a test sets, and a count of them.
struct Cloud {
    exchanges: Exchanges<AccessToken>,
    clock: Arc<TestClock>,
    asked: AtomicU32,
}

impl Cloud {
    fn new() -> Self {
        let (clock, asked) = (TestClock::new(), AtomicU32::new(0));
        Self { exchanges: Exchanges::default(), clock, asked }
    }

    async fn ask(&self, key: Key, answer: Exchanged) -> Exchanged {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let exchange = || {
            self.asked.fetch_add(1, Ordering::SeqCst);
            ready(answer)
        };
        self.exchanges.get(key, &clock, exchange).await
    }

    fn token(&self, seconds: i64) -> AccessToken {
        let ends_at = self.clock.now() + SignedDuration::from_secs(seconds);
        AccessToken { secret: "secret".into(), ends_at }
    }

    /// Requests again after `seconds`; returns whether that caused a new exchange.
    async fn is_new_after(&self, seconds: i64, answer: &dyn Fn() -> Exchanged) -> bool {
        self.clock.advance(seconds);
        let before = self.asked.load(Ordering::SeqCst);
        let _ = self.ask(key(1), answer()).await;
        self.asked.load(Ordering::SeqCst) > before
    }
}

#[tokio::test]
async fn a_token_is_cached_until_five_minutes_before_its_expiry_and_a_short_one_for_half_its_life()
{
    for (life, kept) in [(3_600, 3_300), (600, 300), (60, 30), (0, 0), (-5, 0)] {
        let cloud = Cloud::new();
        let token = || Ok(cloud.token(life));
        assert!(cloud.is_new_after(0, &token).await, "{life}");
        if kept > 0 {
            assert!(!cloud.is_new_after(kept - 1, &token).await, "{life}");
            assert!(cloud.is_new_after(1, &token).await, "{life}");
        } else {
            assert!(cloud.is_new_after(0, &token).await, "{life}");
        }
    }
}

#[tokio::test]
async fn a_rejection_is_cached_for_ten_seconds_and_other_failures_are_not() {
    let cloud = Cloud::new();
    let refused = || Err(FederationError::Refused("no".to_owned()));
    assert!(cloud.is_new_after(0, &refused).await);
    assert!(!cloud.is_new_after(9, &refused).await);
    assert!(cloud.is_new_after(1, &refused).await);
    for error in [FederationError::Unavailable, FederationError::Throttled] {
        let cloud = Cloud::new();
        let failed = || Err(error("later".to_owned()));
        assert!(cloud.is_new_after(0, &failed).await);
        assert!(cloud.is_new_after(0, &failed).await);
    }
}

/// An exchange without waiting callers may have expired when the next caller comes.
#[tokio::test]
async fn an_abandoned_exchange_continues_and_an_expired_result_is_not_returned() {
    let cloud = Cloud::new();
    let clock: Arc<dyn Clock> = cloud.clock.clone();
    let token = Ok(cloud.token(3_600));
    let (answer, answered) = tokio::sync::oneshot::channel();
    let slow = cloud.exchanges.get(key(1), &clock, || async { answered.await.unwrap() });
    tokio::time::timeout(Duration::from_millis(1), slow).await.unwrap_err();
    answer.send(token).unwrap_or_else(|_| panic!("the exchange goes on without its caller"));
    let finished = async {
        let is_pending = || {
            let pending = cloud.exchanges.0.get(&key(1), clock.now());
            pending.expect("it is in the cache").peek().is_none()
        };
        while is_pending() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), finished).await.expect("the exchange continues");
    assert!(!cloud.is_new_after(0, &|| Ok(cloud.token(3_600))).await);
    assert!(cloud.is_new_after(3_600, &|| Ok(cloud.token(3_600))).await);
}
