//! From a runner to what starts its jobs.

use crate::Dispatcher;
use canyon_domain::ids::{AgentId, OrgId, OrgUuid, RunnerId, RunnerUuid};
use canyon_domain::runner::RunnerDefinition;
use std::sync::Arc;

/// The runner whose jobs are to be started.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose runner it is.
    pub org: OrgUuid,
    /// The name of that organization.
    pub org_id: OrgId,
    /// The runner. Clouds trust this life of it, and not its name.
    pub runner: RunnerUuid,
    /// Its name.
    pub runner_id: RunnerId,
    /// Where and how its jobs run, secrets included.
    pub definition: RunnerDefinition,
    /// The one agent that is to start them, if somebody has named one.
    pub agent: Option<AgentId>,
}

/// A kind of compute, for all runners of a type.
pub trait Platform: Send + Sync {
    /// What starts the jobs of this runner. Makes no call.
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher>;

    /// The same while nobody can say which settings a deployment takes: the target's are the runner's alone. It looks
    /// at jobs and stops them, and gives none to anybody.
    fn watcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.dispatcher(target)
    }
}
