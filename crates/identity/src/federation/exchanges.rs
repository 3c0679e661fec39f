//! What was exchanged, kept until shortly before it ends: whoever asks meanwhile shares it.

use super::{AccessToken, FederationError, RunnerIdentity};
use aws_credential_types::Credentials;
use canyon_domain::seam::Clock;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What ends sooner is not handed out: whoever gets it has this long to use it. Of what lives
/// shorter than twice that, half its life.
const SHORTEST_REST: SignedDuration = SignedDuration::from_mins(5);
/// How long a refusal is repeated without asking again, so that a thousand deployments of a runner
/// that is not let in are not a thousand calls. Whoever has put it right waits no longer than that.
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(10);
/// The most kept ones; beyond that all are forgotten, and exchanged anew.
const MAX_KEPT: usize = 1_000;

/// Who asked, and for what in every detail: two runners never share, whatever they ask for.
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

/// What a cloud gives out ends.
pub(super) trait Ends {
    fn ends_at(&self) -> Timestamp;
}

impl Ends for AccessToken {
    fn ends_at(&self) -> Timestamp {
        self.ends_at
    }
}

impl Ends for Credentials {
    fn ends_at(&self) -> Timestamp {
        self.expiry().and_then(|end| Timestamp::try_from(end).ok()).unwrap_or(Timestamp::MIN)
    }
}

#[derive(Clone)]
struct Landed<T> {
    result: Result<T, FederationError>,
    /// Until when it is the answer for others.
    until: Timestamp,
}

/// An exchange on its way or there. It has a task of its own, so it goes on when the one that asked
/// first gives up.
type Flight<T> = Shared<BoxFuture<'static, Landed<T>>>;

/// Exchanges by what was asked for.
pub(super) struct Exchanges<T>(Mutex<HashMap<Key, Flight<T>>>);

impl<T> Default for Exchanges<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Ends + Clone + Send + Sync + 'static> Exchanges<T> {
    /// The one of before, the one on its way, or a new one.
    pub(super) async fn get<F>(
        &self,
        key: Key,
        clock: &Arc<dyn Clock>,
        exchange: impl FnOnce() -> F,
    ) -> Result<T, FederationError>
    where
        F: Future<Output = Result<T, FederationError>> + Send + 'static,
    {
        self.flight(key, clock, exchange).await.result
    }

    fn flight<F>(&self, key: Key, clock: &Arc<dyn Clock>, exchange: impl FnOnce() -> F) -> Flight<T>
    where
        F: Future<Output = Result<T, FederationError>> + Send + 'static,
    {
        let now = clock.now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = known.get(&key).filter(|flight| is_good(flight, now)) {
            return flight.clone();
        }
        if known.len() >= MAX_KEPT {
            known.retain(|_, flight| is_good(flight, now));
        }
        if known.len() >= MAX_KEPT {
            known.clear();
        }
        let flight = launch(exchange(), Arc::clone(clock));
        known.insert(key, flight.clone());
        flight
    }
}

fn launch<T, F>(exchange: F, clock: Arc<dyn Clock>) -> Flight<T>
where
    T: Ends + Clone + Send + Sync + 'static,
    F: Future<Output = Result<T, FederationError>> + Send + 'static,
{
    let landing = exchange.map(move |result| {
        let until = good_until(&result, clock.now());
        Landed { result, until }
    });
    let flight = landing.boxed().shared();
    tokio::spawn(flight.clone().map(drop));
    flight
}

fn is_good<T>(flight: &Flight<T>, now: Timestamp) -> bool
where
    T: Clone,
{
    flight.peek().is_none_or(|landed| now < landed.until)
}

fn good_until<T: Ends>(result: &Result<T, FederationError>, now: Timestamp) -> Timestamp {
    let until = match result {
        Ok(given) => {
            let life = given.ends_at().duration_since(now);
            given.ends_at().checked_sub(SHORTEST_REST.min(life / 2))
        }
        Err(FederationError::Refused(_)) => now.checked_add(REFUSED_FOR),
        Err(_) => Ok(now),
    };
    until.unwrap_or(now)
}

#[cfg(test)]
#[path = "exchanges_tests.rs"]
mod tests;
