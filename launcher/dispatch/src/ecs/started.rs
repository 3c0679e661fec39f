//! What this process knows of the tasks that it started.

use crate::JobRef;
use canyon_domain::ids::DeploymentId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The most attempts that are remembered, the oldest forgotten first. A forgotten one costs a
/// request.
const MAX_REMEMBERED: usize = 4_096;

/// An attempt's task.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Its ARN, once ECS has said it.
    pub(super) task: Option<String>,
    /// ECS was asked to start it, and did not answer.
    pub(super) was_asked: bool,
}

/// See [`Known`]. Whoever starts a task holds its lock, so of many starts at once one calls ECS.
pub(super) type Entry = Arc<tokio::sync::Mutex<Known>>;

type Name = (DeploymentId, u32);

/// The attempts of one runner.
#[derive(Debug, Default)]
pub(super) struct StartedTasks(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    entries: HashMap<Name, Entry>,
    order: VecDeque<Name>,
}

impl StartedTasks {
    /// The attempt's entry, new if it is not remembered.
    pub(super) fn entry(&self, job: &JobRef) -> Entry {
        let name = (job.deployment, job.attempt);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.entries.get(&name) {
            return entry.clone();
        }
        if all.order.len() >= MAX_REMEMBERED
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
        // While it is being started, nobody knows.
        entry.try_lock().ok()?.task.clone()
    }
}
