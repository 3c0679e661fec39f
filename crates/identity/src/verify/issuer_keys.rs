//! The keys of issuers, remembered.
//!
//! Anybody may send a token that names an unknown key, and each must not become a call to the issuer.
//! So an issuer is asked at most once a minute, however many ask for it and whatever it answers, and
//! all who ask at once wait for one answer.

use super::fetch::Fetch;
use super::key_set::KeySet;
use canyon_domain::causes::Causes;
use canyon_domain::seam::Clock;
use canyon_domain::trust_policy::IssuerUrl;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long keys are good without another look. It bounds how long a withdrawn key is believed.
const FRESH: Duration = Duration::from_mins(10);
/// How long they are good while the issuer does not answer.
const STALE: Duration = Duration::from_hours(1);
/// Between two calls to an issuer.
const PAUSE: Duration = Duration::from_mins(1);
/// The same where nothing is known of it: somebody may be waiting for it to be mended.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The most issuers; beyond that all are forgotten, and asked anew.
const MAX_ISSUERS: usize = 1_000;

/// Keys of issuers.
pub struct IssuerKeys {
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    issuers: Mutex<HashMap<IssuerUrl, Arc<Entry>>>,
}

/// One issuer. Who needs it asked waits for `asking`; who finds a key among the known ones does not.
#[derive(Debug, Default)]
struct Entry {
    known: Mutex<Known>,
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Entry {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Known {
    keys: Option<(Arc<KeySet>, Timestamp)>,
    asked_at: Option<Timestamp>,
}

impl Known {
    fn keys(&self, now: Timestamp, life: Duration) -> Option<&Arc<KeySet>> {
        self.keys.as_ref().filter(|(_, at)| now < *at + life).map(|(keys, _)| keys)
    }

    /// Whether it may be asked now; then it counts as asked.
    fn begins_to_ask(&mut self, now: Timestamp) -> bool {
        let pause = if self.keys.is_some() { PAUSE } else { FIRST_PAUSE };
        let may = self.asked_at.is_none_or(|at| now >= at + pause);
        if may {
            self.asked_at = Some(now);
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
    /// Keys that come from `fetch`.
    pub fn new(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Self {
        Self { fetch, clock, issuers: Mutex::default() }
    }

    /// The keys of `issuer`; asked for anew if the known ones do not suffice.
    ///
    /// # Errors
    ///
    /// Says that there are none, for the log.
    pub(super) async fn having(
        &self,
        issuer: &IssuerUrl,
        suffice: impl Fn(&KeySet) -> bool,
    ) -> Result<Arc<KeySet>, String> {
        let entry = self.entry(issuer);
        let fresh = |now| {
            let known = entry.known();
            known.keys(now, FRESH).filter(|keys| suffice(keys)).cloned()
        };
        if let Some(keys) = fresh(self.clock.now()) {
            return Ok(keys);
        }
        let asking = entry.asking.clone().lock_owned().await;
        // Others may have asked meanwhile.
        let now = self.clock.now();
        if let Some(keys) = fresh(now) {
            return Ok(keys);
        }
        if entry.known().begins_to_ask(now) {
            // In a task of its own: it counts as asked, and whoever asks may be gone before the answer comes.
            let (fetch, issuer, asked) = (self.fetch.clone(), issuer.clone(), entry.clone());
            let answer = tokio::spawn(async move {
                match fetch.fetch(&issuer).await {
                    Ok(keys) => asked.known().keys = Some((Arc::new(keys), now)),
                    Err(error) => {
                        tracing::warn!(%issuer, error = %Causes(&error), "cannot fetch an issuer's keys");
                    }
                }
                drop(asking);
            });
            if let Err(error) = answer.await {
                tracing::error!(%error, "a fetch of keys ended early");
            }
        } else {
            drop(asking);
        }
        let keys = entry.known().keys(now, STALE).cloned();
        keys.ok_or_else(|| "the keys of its issuer are not known".to_owned())
    }

    fn entry(&self, issuer: &IssuerUrl) -> Arc<Entry> {
        let mut all = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_ISSUERS && !all.contains_key(issuer) {
            all.clear();
        }
        all.entry(issuer.clone()).or_default().clone()
    }
}
