//! Cache of issuers' keys.
//!
//! Any caller may send a token that names an unknown key, and each must not cause a call to the
//! issuer. So Canyon calls an issuer at most once a minute, whatever it answers, and concurrent
//! callers wait for one answer.

use super::fetch::Fetch;
use super::key_set::KeySet;
use canyon_domain::causes::Causes;
use canyon_domain::ports::Clock;
use canyon_domain::trust_policy::IssuerUrl;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long keys are used without a new fetch. This limits how long a withdrawn key is trusted.
const FRESH_LIFETIME: Duration = Duration::from_mins(10);
/// How long keys are used while the issuer does not answer.
const STALE_LIFETIME: Duration = Duration::from_hours(1);
/// Shortest time between two calls to an issuer.
const MIN_FETCH_INTERVAL: Duration = Duration::from_mins(1);
/// The same for an issuer without known keys, where an administrator may wait for the result of a
/// fix.
const MIN_FIRST_FETCH_INTERVAL: Duration = Duration::from_secs(10);
/// Most cached issuers; beyond that the cache is cleared, and keys are fetched again.
const MAX_ISSUERS: usize = 1_000;

/// Keys of issuers.
pub struct IssuerKeys {
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    issuers: Mutex<HashMap<IssuerUrl, Arc<Entry>>>,
}

/// One issuer. A caller that needs a fetch waits for `fetching`; a caller that finds its key in the
/// cache does not.
#[derive(Debug, Default)]
struct Entry {
    known: Mutex<CachedKeys>,
    fetching: Arc<tokio::sync::Mutex<()>>,
}

impl Entry {
    fn known(&self) -> MutexGuard<'_, CachedKeys> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct CachedKeys {
    keys: Option<(Arc<KeySet>, Timestamp)>,
    fetched_at: Option<Timestamp>,
}

impl CachedKeys {
    fn keys(&self, now: Timestamp, life: Duration) -> Option<&Arc<KeySet>> {
        self.keys.as_ref().filter(|(_, at)| now < *at + life).map(|(keys, _)| keys)
    }

    /// Whether a call is allowed now; if so, records it.
    fn start_fetch(&mut self, now: Timestamp) -> bool {
        let pause = if self.keys.is_some() { MIN_FETCH_INTERVAL } else { MIN_FIRST_FETCH_INTERVAL };
        let may = self.fetched_at.is_none_or(|at| now >= at + pause);
        if may {
            self.fetched_at = Some(now);
        }
        may
    }
}

impl std::fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerKeys").finish_non_exhaustive()
    }
}

impl IssuerKeys {
    /// A cache that gets keys from `fetch`.
    pub fn new(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Self {
        Self { fetch, clock, issuers: Mutex::default() }
    }

    /// The keys of `issuer`; fetches them again if the cached ones do not suffice.
    ///
    /// # Errors
    ///
    /// A message for the log if there are no keys.
    pub(super) async fn get(
        &self,
        issuer: &IssuerUrl,
        suffice: impl Fn(&KeySet) -> bool,
    ) -> Result<Arc<KeySet>, String> {
        let entry = self.entry(issuer);
        let fresh = |now| {
            let known = entry.known();
            known.keys(now, FRESH_LIFETIME).filter(|keys| suffice(keys)).cloned()
        };
        if let Some(keys) = fresh(self.clock.now()) {
            return Ok(keys);
        }
        let fetching = entry.fetching.clone().lock_owned().await;
        // Another caller may have fetched them.
        let now = self.clock.now();
        if let Some(keys) = fresh(now) {
            return Ok(keys);
        }
        if entry.known().start_fetch(now) {
            // In a task of its own: the call is recorded, so it must finish even if the caller is
            // gone.
            let (fetch, issuer, asked) = (self.fetch.clone(), issuer.clone(), entry.clone());
            let answer = tokio::spawn(async move {
                match fetch.fetch(&issuer).await {
                    Ok(keys) => asked.known().keys = Some((Arc::new(keys), now)),
                    Err(error) => {
                        tracing::warn!(%issuer, error = %Causes(&error), "cannot fetch an issuer's keys");
                    }
                }
                drop(fetching);
            });
            if let Err(error) = answer.await {
                tracing::error!(%error, "a fetch of an issuer's keys was aborted");
            }
        } else {
            drop(fetching);
        }
        let keys = entry.known().keys(now, STALE_LIFETIME).cloned();
        keys.ok_or_else(|| "the keys of its issuer are not available".to_owned())
    }

    fn entry(&self, issuer: &IssuerUrl) -> Arc<Entry> {
        let mut all = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_ISSUERS && !all.contains_key(issuer) {
            all.clear();
        }
        all.entry(issuer.clone()).or_default().clone()
    }
}
