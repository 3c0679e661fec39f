//! Cache of exchanged tokens, until shortly before they expire. Concurrent callers share one
//! exchange.

use super::{AccessToken, FederationError, RunnerIdentity};
use aws_credential_types::Credentials;
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ports::Clock;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// A result with less time left is not reused, so that a caller has this long to use it. For a
/// result with a shorter lifetime than twice this, it is half the lifetime.
const MIN_REMAINING_LIFE: SignedDuration = SignedDuration::from_mins(5);
/// How long a rejection is cached, so that a thousand deployments of a runner without access make
/// one call. After an administrator fixes the access, callers wait at most this long.
const REJECTION_CACHE_TIME: SignedDuration = SignedDuration::from_secs(10);
/// The most cached results.
const MAX_CACHED: usize = 1_000;
/// The longest that a result stays in the cache; one with a longer life is exchanged again.
const CACHE_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// The runner and every parameter of the request: two runners never share a result, whatever they
/// request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    who: RunnerIdentity,
    what: Vec<String>,
}

impl Key {
    pub(super) fn new<const N: usize>(who: RunnerIdentity, what: [&str; N]) -> Self {
        Self { who, what: what.map(str::to_owned).into() }
    }
}

/// A result with an expiry.
pub(super) trait Expiring {
    fn ends_at(&self) -> Timestamp;
}

impl Expiring for AccessToken {
    fn ends_at(&self) -> Timestamp {
        self.ends_at
    }
}

impl Expiring for Credentials {
    fn ends_at(&self) -> Timestamp {
        self.expiry().and_then(|end| Timestamp::try_from(end).ok()).unwrap_or(Timestamp::MIN)
    }
}

#[derive(Clone)]
struct Finished<T> {
    result: Result<T, FederationError>,
    /// Until when other callers get this result.
    until: Timestamp,
}

/// A pending or finished exchange. It is a task of its own, so it continues if the first caller
/// gives up.
type PendingExchange<T> = Shared<BoxFuture<'static, Finished<T>>>;

/// Exchanges by request.
pub(super) struct Exchanges<T>(ExpiringCache<Key, PendingExchange<T>>);

impl<T> Default for Exchanges<T> {
    fn default() -> Self {
        Self(ExpiringCache::new(CACHE_LIFETIME, MAX_CACHED))
    }
}

impl<T: Expiring + Clone + Send + Sync + 'static> Exchanges<T> {
    /// The cached result, the result of the pending exchange, or that of a new one.
    pub(super) async fn get<F>(
        &self,
        key: Key,
        clock: &Arc<dyn Clock>,
        exchange: impl FnOnce() -> F,
    ) -> Result<T, FederationError>
    where
        F: Future<Output = Result<T, FederationError>> + Send + 'static,
    {
        let now = clock.now();
        let start = || start(exchange(), Arc::clone(clock));
        self.0.get_or_insert(key, now, |pending| is_usable(pending, now), start).await.result
    }
}

fn start<T, F>(exchange: F, clock: Arc<dyn Clock>) -> PendingExchange<T>
where
    T: Expiring + Clone + Send + Sync + 'static,
    F: Future<Output = Result<T, FederationError>> + Send + 'static,
{
    let finishing = exchange.map(move |result| {
        let until = usable_until(&result, clock.now());
        Finished { result, until }
    });
    let pending = finishing.boxed().shared();
    tokio::spawn(pending.clone().map(drop));
    pending
}

fn is_usable<T>(pending: &PendingExchange<T>, now: Timestamp) -> bool
where
    T: Clone,
{
    pending.peek().is_none_or(|finished| now < finished.until)
}

fn usable_until<T: Expiring>(result: &Result<T, FederationError>, now: Timestamp) -> Timestamp {
    let until = match result {
        Ok(given) => {
            let life = given.ends_at().duration_since(now);
            given.ends_at().checked_sub(MIN_REMAINING_LIFE.min(life / 2))
        }
        Err(FederationError::Refused(_)) => now.checked_add(REJECTION_CACHE_TIME),
        Err(_) => Ok(now),
    };
    until.unwrap_or(now)
}

#[cfg(test)]
#[path = "exchanges_tests.rs"]
mod tests;
