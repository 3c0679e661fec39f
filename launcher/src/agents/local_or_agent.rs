//! Runners of type `local`: their jobs run as processes beside Canyon, or beside an agent.

use super::AgentPlatform;
use async_trait::async_trait;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Platform, RemovalOutcome, Started, StopMode,
    TailStream, Target,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use std::sync::Arc;

/// The platform of type `local`.
#[derive(Clone)]
pub struct LocalOrAgent {
    /// Launches for runners and deployments that need an agent.
    pub agents: AgentPlatform,
    /// Launches for the others, if this installation runs jobs as local processes.
    pub here: Option<Arc<dyn Platform>>,
}

impl LocalOrAgent {
    fn here(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        match &self.here {
            Some(here) => here.dispatcher(target),
            None => Arc::new(NoLocalJobs),
        }
    }
}

/// Whether an agent launches the job.
fn is_of_agents(target: &Target) -> bool {
    target.agent.is_some() || target.definition.needs_agent()
}

impl Platform for LocalOrAgent {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        if is_of_agents(target) { self.agents.dispatcher(target) } else { self.here(target) }
    }

    fn watcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        if is_of_agents(target) { self.agents.watcher(target) } else { self.here(target) }
    }
}

/// The dispatcher of local runners without `agents`, in an installation that runs no local jobs.
struct NoLocalJobs;

const REASON: &str = "this installation runs no jobs beside Canyon; name `agents` in the runner";

#[async_trait]
impl Dispatcher for NoLocalJobs {
    async fn start(&self, _: &Launch) -> Result<Started, DispatchError> {
        Err(DispatchError::refused(FailureClass::Config, REASON))
    }

    async fn observe(&self, _: &JobRef) -> Observation {
        Observation::Gone(Some(Failure::new(FailureClass::Config, REASON)))
    }

    async fn stop(&self, _: &JobRef, _: StopMode) -> Result<(), DispatchError> {
        Ok(())
    }

    async fn tail(&self, _: &JobRef, _: TailStream, _: u64) -> Result<Vec<u8>, DispatchError> {
        Ok(Vec::new())
    }

    async fn forget(&self, _: &JobRef) -> RemovalOutcome {
        RemovalOutcome::Removed
    }
}
