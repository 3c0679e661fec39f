//! A short-lived cache of an organization's items, for the many deployments that are reconciled at
//! once.

use canyon_domain::ids::OrgUuid;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The list of each organization, and when it was read.
type Lists<T> = HashMap<OrgUuid, (Timestamp, Arc<[T]>)>;

/// The cached lists of organizations.
#[derive(Debug)]
pub(crate) struct OrgCache<T> {
    lifetime: SignedDuration,
    lists: Mutex<Lists<T>>,
}

impl<T> OrgCache<T> {
    /// Creates an empty cache whose entries expire after `lifetime`.
    #[must_use]
    pub(crate) fn expiring_after(lifetime: SignedDuration) -> Self {
        Self { lifetime, lists: Mutex::default() }
    }

    /// The organization's list; calls `read` if the cache has none. Concurrent callers may both
    /// read.
    pub(crate) async fn get<E>(
        &self,
        org: OrgUuid,
        now: Timestamp,
        read: impl Future<Output = Result<Vec<T>, E>>,
    ) -> Result<Arc<[T]>, E> {
        if let Some(list) = self.fresh(org, now) {
            return Ok(list);
        }
        let list: Arc<[T]> = read.await?.into();
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.insert(org, (now, list.clone()));
        Ok(list)
    }

    fn fresh(&self, org: OrgUuid, now: Timestamp) -> Option<Arc<[T]>> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, list) = lists.get(&org)?;
        (now.duration_since(*since) < self.lifetime).then(|| list.clone())
    }
}
