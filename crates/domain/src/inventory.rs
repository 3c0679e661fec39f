//! The resources of an organization: environment types, projects, environments, runners and rules.

pub use crate::deletion_protection::DeletionProtection;
pub use crate::environment_type::{EnvironmentType, Update};

use crate::approval::{Approval, ApprovalRule};
use crate::deployment::{Deployment, Mode};
use crate::deployment_queue::DeploymentQueue;
use crate::display_name::DisplayName;
use crate::drift::DriftRecord;
use crate::environment_state::StorageMismatch;
use crate::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, PrincipalId, ProjectId, RuleId,
    RunnerId,
};
use crate::job::StateTask;
use crate::module_record::ModuleRecord;
use crate::module_source::Digest;
use crate::resource::{ResourceRefusal, ResourceSet};
use crate::runner::agents::ProfileName;
use crate::runner_rules::{Rule, RuleTarget, Scope};
use crate::scoped_role::Target;
use crate::state_storage::StateStorage;
use crate::variable_scope::VariableTarget;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An organization: the tenant. No other organization can see its resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// Its name.
    pub id: OrgId,
    /// Its uuid, which is never reused.
    pub uuid: OrgUuid,
    /// When it was created.
    pub created_at: Timestamp,
    /// The principal that created it.
    pub created_by: PrincipalId,
    /// Whether an unknown agent may request adoption.
    #[serde(default, skip_serializing_if = "AgentRequests::is_default")]
    pub agent_requests: AgentRequests,
    /// Whether all its failed and cancelled deployments are in the lists of such. Earlier versions wrote no lists, so those
    /// of their organizations lack what ended before the update.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lists_ends: bool,
}

impl Organization {
    /// A new organization, with the defaults of its settings.
    pub fn new(id: OrgId, uuid: OrgUuid, created_at: Timestamp, created_by: PrincipalId) -> Self {
        let agent_requests = AgentRequests::default();
        Self { id, uuid, created_at, created_by, agent_requests, lists_ends: true }
    }
}

/// What happens to an agent that presents a key of its own, and that neither a token nor a runner's key
/// authenticates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRequests {
    /// It is listed as pending until an administrator adopts it.
    #[default]
    Allowed,
    /// Canyon keeps no record of it.
    Refused,
}

impl AgentRequests {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its name, or the path of groups that ends with it.
    pub id: ProjectId,
    /// Its uuid, which is never reused.
    pub uuid: Uuid,
    /// Its name for users.
    pub display_name: DisplayName,
    /// The runner profile of its deployments on runners that ask the project for it: see
    /// [`ProfileName::asks_the_project`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether an environment is in use. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentStatus {
    /// It accepts deployments.
    Active,
    /// A destroy run empties it; then it is removed.
    Deleting,
    /// The destroy run failed; it may be deleted again.
    DeleteFailed,
}

/// An environment of a project, and the runner that it is linked to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Its name.
    pub id: EnvId,
    /// Its uuid, which is never reused; names its state.
    pub uuid: EnvUuid,
    /// The project.
    pub project_id: ProjectId,
    /// The project's uuid.
    pub project_uuid: Uuid,
    /// Its type.
    pub env_type_id: EnvTypeId,
    /// Its name for users.
    pub display_name: DisplayName,
    /// Whether it is in use.
    pub status: EnvironmentStatus,
    /// A message about the status, if it adds something to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The runner. Changes of the rules do not affect it, until a user refreshes it.
    pub runner_id: RunnerId,
    /// The runners that take its deployments when the one before cannot, in this order; linked like the runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_runner_ids: Vec<RunnerId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Its queue of deployments.
    #[serde(rename = "turns", default)]
    pub queue: DeploymentQueue,
    /// Its module.
    #[serde(flatten)]
    pub module: ModuleRecord,
    /// The newest deployments with secret inputs, the newest first: its state may have those values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_inputs: Vec<DeploymentId>,
    /// What container jobs have created in it.
    #[serde(default, skip_serializing_if = "ResourceSet::is_empty")]
    pub resources: ResourceSet,
    /// Its deletion protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// The rule of its type, as a copy: an acceptance reads the environment only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_approval: Option<Box<ApprovalRule>>,
    /// SHA-256 of the policy of its type, as a copy: a job in an environment without one needs no further read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_policy: Option<Digest>,
    /// Its own rule, which is stricter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalRule>>,
    /// What is known of its drift; `None` before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Box<DriftRecord>>,
    /// The destroy run after which the environment is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_by: Option<DeploymentId>,
    /// Increases with every write; each write is conditional on the version that was read.
    pub version: u64,
}

impl<'a> From<&'a Environment> for Target<'a> {
    fn from(of: &'a Environment) -> Self {
        Self::Environment { project: &of.project_id, env: &of.id, env_type: Some(&of.env_type_id) }
    }
}

/// Of how many deployments an environment knows that they had secret inputs.
const MAX_SECRET_INPUTS: usize = 5;

impl Environment {
    /// What determines the variables of a run of this environment on `runner`, which may be another than the environment's.
    pub fn on<'a>(&'a self, runner: &'a RunnerId) -> VariableTarget<'a> {
        let Self { project_id, id, env_type_id, .. } = self;
        VariableTarget { runner, project: project_id, env: id, env_type: env_type_id }
    }

    /// The approval that a new deployment needs; `asked` adds what its own request asks for.
    pub fn approval_needed(&self, asked: Option<&ApprovalRule>) -> Option<Approval> {
        let own = [&self.type_approval, &self.approval].into_iter().flatten();
        let rules: Vec<_> = own.map(|rule| &**rule).chain(asked).collect();
        Approval::by_rules(&rules)
    }

    /// Records that `deployment` has secret inputs, which its run may leave in the state.
    pub fn record_secret_inputs(&mut self, deployment: DeploymentId) {
        self.secret_inputs.insert(0, deployment);
        self.secret_inputs.truncate(MAX_SECRET_INPUTS);
    }

    /// Records that `deployment` has the turn and is being launched, perhaps again.
    pub fn record_launch(&mut self, deployment: &Deployment) {
        self.resources.record_launch(deployment);
        if let Some(module) = self.module_of_mut(deployment) {
            module.record_launch(deployment);
        }
    }

    /// Records where `deployment`, which is launched, works on its state: as [`ModuleRecord::record_state_location`].
    ///
    /// # Errors
    ///
    /// [`StorageMismatch`] if that state is in another storage: the deployment must not run.
    pub fn record_state_location(
        &mut self,
        deployment: &Deployment,
        storage: &StateStorage,
        former: &[StateStorage],
    ) -> Result<(), StorageMismatch> {
        // A new resource begins with its first launch.
        self.resources.begin(deployment);
        let module = self.module_of_mut(deployment);
        module.map_or(Ok(()), |module| module.record_state_location(deployment, storage, former))
    }

    /// Whether `deployment`, which has the turn, may run for its resource. A destroy of one that is gone finds nothing.
    ///
    /// # Errors
    ///
    /// [`ResourceRefusal`].
    pub fn check_resource(&self, deployment: &Deployment) -> Result<(), ResourceRefusal> {
        let is_destroy = deployment.mode == Mode::Destroy;
        match deployment.resource().filter(|_| !deployment.plan_only) {
            Some(name) if !is_destroy || self.resources.get(name).is_some() => {
                self.resources.check(name, deployment.kind())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The storage that `deployment` uses, and the state handling of its job: as [`ModuleRecord::state_for_job`].
    pub fn state_for_job<'a>(
        &'a self,
        deployment: &Deployment,
        storage: &'a StateStorage,
        unfinished: Option<&Deployment>,
    ) -> (&'a StateStorage, StateTask) {
        const NONE: &ModuleRecord = &ModuleRecord::NEW;
        let module = self.module_of(deployment).unwrap_or(NONE);
        module.state_for_job(deployment, storage, unfinished)
    }

    /// What is known of the module that `deployment` runs: that of the environment, or of a resource. `None` if it runs none,
    /// or the first plan of a resource.
    pub fn module_of(&self, deployment: &Deployment) -> Option<&ModuleRecord> {
        match deployment.resource() {
            None => Some(&self.module),
            Some(name) => self.resources.get(name)?.module.as_deref(),
        }
        .filter(|_| deployment.kind().facts().has_state)
    }

    /// The same, to change it.
    pub fn module_of_mut(&mut self, deployment: &Deployment) -> Option<&mut ModuleRecord> {
        match deployment.resource() {
            None => Some(&mut self.module),
            Some(name) => self.resources.get_mut(name)?.module.as_deref_mut(),
        }
        .filter(|_| deployment.kind().facts().has_state)
    }

    /// What is known of every module, its own first, each with the uuid that names its state.
    pub fn modules(&self) -> impl Iterator<Item = (EnvUuid, &ModuleRecord)> {
        let of_resources = self.resources.iter().filter_map(|resource| {
            Some((resource.name.state_id(self.uuid), resource.module.as_deref()?))
        });
        std::iter::once((self.uuid, &self.module)).chain(of_resources)
    }

    /// The same, to change them.
    pub fn modules_mut(&mut self) -> impl Iterator<Item = (EnvUuid, &mut ModuleRecord)> {
        let uuid = self.uuid;
        let of_resources = self.resources.iter_mut().filter_map(move |resource| {
            Some((resource.name.state_id(uuid), resource.module.as_deref_mut()?))
        });
        std::iter::once((uuid, &mut self.module)).chain(of_resources)
    }

    /// Whether one of its states may contain resources, which would be abandoned if it were lost.
    pub fn may_hold_resources(&self) -> bool {
        self.modules().any(|(_, module)| module.may_hold_resources())
    }

    /// How many resources a run may delete, if limited: the lower of the requested limit and the
    /// environment's.
    pub fn allowed_deletions(&self, asked: Option<u32>) -> Option<u32> {
        let allowed = self.deletion_protection.map(|protection| protection.max_deletions);
        [asked, allowed].into_iter().flatten().min()
    }

    /// The linked runners: its own, and then its fallbacks.
    pub fn runner_ids(&self) -> impl Iterator<Item = &RunnerId> {
        std::iter::once(&self.runner_id).chain(&self.fallback_runner_ids)
    }

    /// The values that rules are matched against.
    pub fn rule_target(&self) -> RuleTarget {
        RuleTarget { project: self.project_id.clone(), env_type: self.env_type_id.clone() }
    }
}

/// "Use this runner for these environments."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerRule {
    /// Its id.
    pub id: RuleId,
    /// The runner to use.
    pub runner_id: RunnerId,
    /// The runners to ask in this order when it cannot take a deployment.
    pub fallback_runner_ids: Vec<RunnerId>,
    /// The environments for which to use it.
    pub scope: Scope,
    /// When it was created.
    pub created_at: Timestamp,
}

impl From<RunnerRule> for Rule {
    fn from(of: RunnerRule) -> Self {
        Self { runner: of.runner_id, fallbacks: of.fallback_runner_ids, scope: of.scope }
    }
}

impl RunnerRule {
    /// Its runner, and then its fallbacks.
    pub fn runner_ids(&self) -> impl Iterator<Item = &RunnerId> {
        std::iter::once(&self.runner_id).chain(&self.fallback_runner_ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_organization_stored_without_settings_allows_requests_and_is_written_unchanged() {
        let id = Uuid::nil();
        let stored = json!({
            "id": "acme", "uuid": id, "created_at": "2026-01-15T12:00:00Z", "created_by": id,
        });
        let mut read: Organization = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(read.agent_requests, AgentRequests::Allowed);
        assert_eq!(serde_json::to_value(&read).unwrap(), stored);
        read.agent_requests = AgentRequests::Refused;
        let refusing = serde_json::to_value(&read).unwrap();
        assert_eq!(refusing["agent_requests"], "refused");
        assert_eq!(serde_json::from_value::<Organization>(refusing).unwrap(), read);
    }
}
