//! The deployments that requests wait for.
//!
//! All requests that wait for one deployment share its last read. A write of another deployment wakes none of them.

use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_store::write_requests::deployments_in;
use canyon_store::{StoreError, Table};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// How long a read is valid, if no write of the deployment was announced since.
const FRESH: Duration = Duration::from_secs(1);
/// The same, if the writes of other processes are not announced.
const FRESH_UNHINTED: Duration = Duration::from_millis(50);

type Key = (DeploymentId, OrgUuid);

/// The deployments that requests wait for. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched(Arc<Mutex<BTreeMap<Key, Weak<Topic>>>>);

/// One watched deployment. It exists until the last request that waits for it is answered.
#[derive(Debug)]
pub(crate) struct Topic {
    key: Key,
    watched: Watched,
    /// Grows with each announced write of the deployment.
    version: watch::Sender<u64>,
    last: tokio::sync::Mutex<Option<Reading>>,
}

/// The last read.
#[derive(Debug)]
struct Reading {
    version: u64,
    at: Instant,
    found: Option<Arc<Deployment>>,
}

impl Watched {
    /// The topic of a deployment, shared by all requests that wait for it.
    pub(crate) fn topic(&self, org: OrgUuid, id: DeploymentId) -> Arc<Topic> {
        let key = (id, org);
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = topics.get(&key).and_then(Weak::upgrade) {
            return topic;
        }
        let (version, last) = (watch::Sender::new(0), tokio::sync::Mutex::default());
        let topic = Arc::new(Topic { key, watched: self.clone(), version, last });
        topics.insert(key, Arc::downgrade(&topic));
        topic
    }

    /// Wakes the requests that wait for a deployment which this write request names.
    pub(crate) fn written(&self, request: &[u8]) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return;
        }
        let ids: HashSet<DeploymentId> = deployments_in(request).collect();
        for id in ids {
            self.changed(id);
        }
    }

    /// Wakes the requests that wait for this deployment.
    pub(crate) fn changed(&self, id: DeploymentId) {
        let all = (id, OrgUuid(Uuid::nil()))..=(id, OrgUuid(Uuid::max()));
        let topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<_> = topics.range(all).filter_map(|(_, topic)| topic.upgrade()).collect();
        // Each may now be the last reference of its topic, and dropping it takes this lock.
        drop(topics);
        for topic in found {
            topic.version.send_modify(|version| *version = version.wrapping_add(1));
        }
    }
}

impl Topic {
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The current deployment, read once for all concurrent requests.
    pub(crate) async fn deployment(
        &self,
        table: &Table,
        is_hinted: bool,
    ) -> Result<Option<Arc<Deployment>>, StoreError> {
        let fresh = if is_hinted { FRESH } else { FRESH_UNHINTED };
        let mut last = self.last.lock().await;
        // Before the read, so that a concurrent write causes another read.
        let version = *self.version.borrow();
        if let Some(last) = &*last
            && last.version == version
            && last.at.elapsed() < fresh
        {
            return Ok(last.found.clone());
        }
        let (id, org) = self.key;
        let at = Instant::now();
        let found = Box::pin(table.deployment(org, id)).await?.map(Arc::new);
        *last = Some(Reading { version, at, found: found.clone() });
        Ok(found)
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let mut topics = self.watched.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A new topic may have replaced this one since its last request ended.
        if topics.get(&self.key).is_some_and(|topic| topic.strong_count() == 0) {
            topics.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_write_and_the_end_of_the_last_wait_hold_each_other_up_in_no_order() {
        let (watched, id) = (Watched::default(), DeploymentId(Uuid::from_u128(1)));
        let org = OrgUuid(Uuid::from_u128(2));
        let (done, ended) = mpsc::channel();
        for is_writer in [true, false] {
            let (watched, done) = (watched.clone(), done.clone());
            std::thread::spawn(move || {
                for _ in 0..100_000 {
                    if is_writer {
                        watched.changed(id);
                    } else {
                        drop(watched.topic(org, id));
                    }
                }
                let _ = done.send(());
            });
        }
        for _ in 0..2 {
            ended.recv_timeout(Duration::from_mins(1)).expect("deadlock: each waits for the other");
        }
        assert!(watched.0.lock().unwrap().is_empty(), "nothing waits");
    }
}
