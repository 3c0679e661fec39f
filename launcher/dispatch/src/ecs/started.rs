//! What this process knows of the tasks that it started.

use crate::JobRef;
use canyon_domain::ids::DeploymentId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of attempts in the cache; the oldest is removed first, and costs a request if
/// it is needed again.
const MAX_CACHED: usize = 4_096;

/// What is known of an attempt's task.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Its ARN, once ECS has returned it.
    pub(super) task: Option<String>,
    /// Whether a start was sent and not answered.
    pub(super) start_was_sent: bool,
}

/// The lock of an attempt's start, so that of concurrent starts only one calls ECS. See [`Known`].
pub(super) type Entry = Arc<tokio::sync::Mutex<Known>>;

type Name = (DeploymentId, u32);

/// The attempts of one runner.
#[derive(Debug, Default)]
pub(super) struct StartedTasks(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    entries: HashMap<Name, Entry>,
    order: VecDeque<Name>,
}

impl StartedTasks {
    /// The attempt's entry, which is created if it does not exist.
    pub(super) fn entry(&self, job: &JobRef) -> Entry {
        let name = (job.deployment, job.attempt);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.entries.get(&name) {
            return entry.clone();
        }
        if all.order.len() >= MAX_CACHED
            && let Some(oldest) = all.order.pop_front()
        {
            all.entries.remove(&oldest);
        }
        all.order.push_back(name);
        all.entries.entry(name).or_default().clone()
    }

    /// The attempt's task, if this process has started or found it.
    pub(super) fn task(&self, job: &JobRef) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entries.get(&(job.deployment, job.attempt))?;
        // While the task is being started, its ARN is not known.
        entry.try_lock().ok()?.task.clone()
    }
}
