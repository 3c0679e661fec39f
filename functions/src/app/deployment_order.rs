//! A deployment as it is requested.

use super::container_jobs::ResourceRequest;
use canyon_domain::deployment::{Mode, Priority};
use canyon_domain::ids::{AgentId, DeploymentId, EnvId, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::job::{LogLevel, Module};
use canyon_domain::kind::Kind;
use canyon_domain::plan_options::PlanOptions;
use canyon_domain::requested_role::RequestedRole;
use canyon_domain::resource::Resource;
use canyon_domain::state_command::StateCommand;
use canyon_domain::variables::secret_json::SecretJson;
use std::collections::BTreeMap;

/// A request to deploy, parsed.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Debug)]
pub struct DeploymentRequest {
    /// The project.
    pub project: ProjectId,
    /// The environment.
    pub env: EnvId,
    /// What to do.
    pub mode: Mode,
    /// Whether to stop after the plan.
    pub plan_only: bool,
    /// The module. A destroy or rollback may omit it.
    pub module: Option<Module>,
    /// The resource that a container job is for, in place of a module.
    pub resource: Option<ResourceRequest>,
    /// The secret values of its variables, by name.
    pub secret_inputs: BTreeMap<String, SecretJson>,
    /// With [`Mode::Rollback`]: the deployment to repeat.
    pub rollback_to: Option<DeploymentId>,
    /// The deployment whose kept plan to apply; see `Deployment::plan_of`.
    pub plan_of: Option<DeploymentId>,
    /// Its position among the waiting deployments.
    pub priority: Priority,
    /// The agent that is to launch it.
    pub agent: Option<AgentId>,
    /// The named role of its runner that it is to have.
    pub role: Option<RequestedRole>,
    /// Adopt the state in the runner's storage, whatever it contains.
    pub accept_state: bool,
    /// The most resources that the plan may delete or replace.
    pub max_deletions: Option<u32>,
    /// `age` key for outputs.
    pub encrypted_outputs_recipient: Option<String>,
    /// `age` key for logs.
    pub encrypted_logs_recipient: Option<String>,
    /// The log level of the runner.
    pub log_level: LogLevel,
    /// Options of the plan.
    pub options: PlanOptions,
    /// With [`Mode::State`]: the command.
    pub state_command: Option<StateCommand>,
    /// People must approve its plan, whatever the environment's rules ask for.
    pub asks_approval: bool,
    /// It replaces those that wait: see [`canyon_domain::superseding`].
    pub supersedes: bool,
    /// With [`Mode::Drift`]: drift that is found leads to a deployment.
    pub reconciles: bool,
}

impl DeploymentRequest {
    /// A request without options.
    pub(crate) fn new(mode: Mode, project: ProjectId, env: EnvId) -> Self {
        Self {
            project,
            env,
            mode,
            plan_only: false,
            module: None,
            resource: None,
            secret_inputs: BTreeMap::new(),
            rollback_to: None,
            plan_of: None,
            priority: Priority::Normal,
            agent: None,
            role: None,
            accept_state: false,
            max_deletions: None,
            encrypted_outputs_recipient: None,
            encrypted_logs_recipient: None,
            log_level: LogLevel::default(),
            options: PlanOptions::default(),
            state_command: None,
            asks_approval: false,
            supersedes: false,
            reconciles: false,
        }
    }

    /// The kinds that its job may have. That of a new resource is known only with its definition, and that of a rollback with the
    /// deployment that it repeats.
    pub(super) fn kinds(&self, environment: &Environment) -> Vec<Kind> {
        let Some(wanted) = &self.resource else { return vec![Kind::Tofu] };
        if wanted.job.is_some() {
            return vec![Kind::Container];
        }
        let known = environment.resources.get(&wanted.name).map(Resource::kind);
        known.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind])
    }
}
