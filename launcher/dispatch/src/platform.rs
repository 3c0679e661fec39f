//! The platform of a type of runners, which creates their dispatchers.

use crate::Dispatcher;
use canyon_domain::ids::{AgentId, OrgId, OrgUuid, PrincipalId, RunnerId, RunnerUuid};
use canyon_domain::runner::RunnerDefinition;
use std::sync::Arc;

/// The runner whose jobs are to be started.
#[derive(Clone, Debug)]
pub struct Target {
    /// The uuid of its organization.
    pub org: OrgUuid,
    /// The id of its organization.
    pub org_id: OrgId,
    /// The runner's uuid. Clouds trust this uuid and not the name, which a later runner may have.
    pub runner: RunnerUuid,
    /// The runner's id.
    pub runner_id: RunnerId,
    /// The definition of the runner and its jobs, secrets included.
    pub definition: RunnerDefinition,
    /// The only agent that may start the jobs, if the deployment names one.
    pub agent: Option<ChosenAgent>,
}

/// The agent that a deployment names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenAgent {
    /// The agent.
    pub id: AgentId,
    /// Who requested the deployment.
    pub by: PrincipalId,
}

/// A kind of compute, for all runners of a type.
pub trait Platform: Send + Sync {
    /// The dispatcher of this runner's jobs. Makes no request.
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher>;

    /// A dispatcher for a runner whose settings for a deployment are not known, so that the target
    /// has only the runner's own. It observes and stops jobs, but starts none and assigns none to
    /// an agent.
    fn watcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.dispatcher(target)
    }
}
