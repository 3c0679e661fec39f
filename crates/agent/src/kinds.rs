//! What jobs run on, as an agent sees it: the same dispatchers as those of the direct launch.

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

/// Why a kind cannot be used, in a sentence that says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KindError(pub String);

impl KindError {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn of(error: DispatchError) -> Self {
        Self(error.to_string())
    }
}

/// A kind of compute in the place of this agent.
#[async_trait]
pub trait Kind: Send + Sync {
    /// The type of the runners whose jobs it launches.
    fn serves(&self) -> RunnerType;

    /// Where jobs run: the cluster, account or engine by an id of its own. Whoever names the same place finds
    /// the same jobs.
    ///
    /// # Errors
    ///
    /// [`KindError`] when the place cannot be asked; it is asked again then.
    async fn place(&self) -> Result<String, KindError>;

    /// What starts the jobs of this runner. Makes no call.
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher>;

    /// The jobs of Canyon that the place has, of whichever runner, dead or alive, as far as it can tell.
    ///
    /// # Errors
    ///
    /// [`KindError`] when the place cannot be asked.
    async fn found(&self) -> Result<Vec<JobKey>, KindError>;

    /// What ends a job that nobody knows anything of but its name.
    fn clearer(&self, job: &JobKey) -> Option<Arc<dyn Dispatcher>>;

    /// Wakes whoever looks at jobs, when one of them may have ended.
    fn hint(&self) -> Arc<Notify> {
        Arc::new(Notify::new())
    }
}

/// How a dispatcher knows the job.
pub fn reference(job: &JobKey, handle: Option<String>) -> JobRef {
    JobRef { deployment: job.deployment, attempt: job.attempt, handle }
}

/// The kind that `settings` name.
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
