//! What an organization has, remembered for a moment: many deployments are looked at at once.

use canyon_domain::ids::OrgUuid;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Of each organization a list, and when it was read.
type Lists<T> = HashMap<OrgUuid, (Timestamp, Arc<[T]>)>;

/// The lists of organizations, each taken to be for a while what it was when it was read.
#[derive(Debug)]
pub(crate) struct Remembered<T> {
    life: SignedDuration,
    lists: Mutex<Lists<T>>,
}

impl<T> Remembered<T> {
    /// Nothing yet. What is read is believed for `life`.
    #[must_use]
    pub(crate) fn for_a(life: SignedDuration) -> Self {
        Self { life, lists: Mutex::default() }
    }

    /// What the organization has, read anew by `read` when it is not remembered. Two that ask at once
    /// may both read.
    pub(crate) async fn of<E>(
        &self,
        org: OrgUuid,
        now: Timestamp,
        read: impl Future<Output = Result<Vec<T>, E>>,
    ) -> Result<Arc<[T]>, E> {
        if let Some(list) = self.known(org, now) {
            return Ok(list);
        }
        let list: Arc<[T]> = read.await?.into();
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.insert(org, (now, list.clone()));
        Ok(list)
    }

    fn known(&self, org: OrgUuid, now: Timestamp) -> Option<Arc<[T]>> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, list) = lists.get(&org)?;
        (now.duration_since(*since) < self.life).then(|| list.clone())
    }
}
