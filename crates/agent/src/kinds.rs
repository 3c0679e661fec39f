//! The agent's kinds of platform. They use the same dispatchers as a direct launch.

mod aws;
mod docker;
mod ecs;
mod kubernetes;
pub mod local;
mod values;

use crate::settings::Settings;
use crate::settings::dispatcher::DispatcherType;
use async_trait::async_trait;
use canyon_api::agent::JobKey;
use canyon_dispatch::{DispatchError, Dispatcher, JobRef, Target};
use canyon_domain::runner::RunnerType;
use std::sync::Arc;
use tokio::sync::Notify;

/// Why a kind of platform cannot be used; the message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KindError(pub String);

impl KindError {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn of(error: DispatchError) -> Self {
        Self(error.to_string())
    }
}

/// A kind of platform, with the agent's own access to it.
#[async_trait]
pub trait Kind: Send + Sync {
    /// The runner type whose jobs it launches.
    fn serves(&self) -> RunnerType;

    /// The identifier of the place where jobs run: the cluster, the account or the engine. Agents with the same place find
    /// the same jobs.
    ///
    /// # Errors
    ///
    /// [`KindError`] when the platform does not answer; the caller retries then.
    async fn platform_id(&self) -> Result<String, KindError>;

    /// The dispatcher for the jobs of the runner in `target`. Makes no call.
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher>;

    /// Canyon's jobs on the platform, of every runner, running or ended. None if each runner's definition has a cluster
    /// or namespace of its own: Canyon names the jobs that the agent holds, and the agent finds these by their names.
    ///
    /// # Errors
    ///
    /// [`KindError`] when the platform does not answer.
    async fn found(&self) -> Result<Vec<JobKey>, KindError> {
        Ok(Vec::new())
    }

    /// A dispatcher that can stop and remove an orphaned job, one that [`Kind::found`] listed.
    fn cleaner(&self, _job: &JobKey) -> Option<Arc<dyn Dispatcher>> {
        None
    }

    /// Notified when a job may have ended, so that the agent observes its jobs at once.
    fn hint(&self) -> Arc<Notify> {
        Arc::new(Notify::new())
    }
}

/// The dispatcher's reference to a job.
pub fn reference(job: &JobKey, handle: Option<String>) -> JobRef {
    JobRef { deployment: job.deployment, attempt: job.attempt, handle }
}

/// The kind of platform that `settings` name.
///
/// # Errors
///
/// [`KindError`] says which setting to change.
pub fn of(settings: &Settings) -> Result<Arc<dyn Kind>, KindError> {
    let variable: &dyn Fn(&str) -> Option<String> =
        &|name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match settings.dispatcher.kind {
        DispatcherType::Local => Ok(Arc::new(local::LocalKind::new(settings)?)),
        DispatcherType::Docker => docker::kind(&settings.dispatcher, variable),
        DispatcherType::Ecs => ecs::kind(&settings.dispatcher, variable),
        DispatcherType::Kubernetes => kubernetes::kind(&settings.dispatcher, variable),
    }
}

#[cfg(test)]
mod tests;
