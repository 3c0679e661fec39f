//! The resources of an organization: environment types, projects, environments, runners and rules.

pub use crate::deletion_protection::DeletionProtection;

use crate::backend::{backend_file, state_location};
use crate::deployment::Deployment;
use crate::deployment_queue::DeploymentQueue;
use crate::display_name::DisplayName;
use crate::environment_state::{Doubt, EnvironmentState, StorageMismatch};
use crate::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, PrincipalId, ProjectId, RuleId,
    RunnerId,
};
use crate::job::{FormerStateLocation, StateTask};
use crate::resource::ResourceSet;
use crate::runner::agents::ProfileName;
use crate::runner_rules::{Rule, RuleTarget, Scope};
use crate::scoped_role::Target;
use crate::state_storage::StateStorage;
use crate::unfinished_run::UnfinishedRun;
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

/// A kind of environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentType {
    /// Its name.
    pub id: EnvTypeId,
    /// Its uuid, which is never reused.
    pub uuid: Uuid,
    /// Its name for users.
    pub display_name: DisplayName,
    /// The default protection of a new environment of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// When it was created.
    pub created_at: Timestamp,
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
    /// The last deployment that began to change its state; a destroy run uses its module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<DeploymentId>,
    /// The previous value of [`Self::applied`], while that deployment may still end without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_before: Option<DeploymentId>,
    /// The last deployment that succeeded, without plans; `None` also if that was before an update of Canyon.
    #[serde(rename = "succeeded", default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<DeploymentId>,
    /// The newest deployments with secret inputs, the newest first: its state may have those values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_inputs: Vec<DeploymentId>,
    /// The record of its state; `None` before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EnvironmentState>,
    /// What container jobs have created in it.
    #[serde(default, skip_serializing_if = "ResourceSet::is_empty")]
    pub resources: ResourceSet,
    /// Its deletion protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
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

    /// Records that `deployment` has secret inputs, which its run may leave in the state.
    pub fn record_secret_inputs(&mut self, deployment: DeploymentId) {
        self.secret_inputs.insert(0, deployment);
        self.secret_inputs.truncate(MAX_SECRET_INPUTS);
    }

    /// Records that `deployment` has the turn and is being launched, perhaps again.
    pub fn record_launch(&mut self, deployment: &Deployment) {
        self.resources.record_launch(deployment);
        let changes = deployment.changes_state() && deployment.mode.creates();
        if changes && self.applied != Some(deployment.id) {
            self.applied_before = self.applied.replace(deployment.id);
        }
    }

    /// Records where `deployment`, which is launched, works on the state: its runner keeps state in `storage`,
    /// and may move states there from those in `former`.
    ///
    /// # Errors
    ///
    /// [`StorageMismatch`] if the environment's state is in another storage: the deployment must not run.
    pub fn record_state_location(
        &mut self,
        deployment: &Deployment,
        storage: &StateStorage,
        former: &[StateStorage],
    ) -> Result<(), StorageMismatch> {
        let mut recorded = self.recorded_state(storage);
        if let Some(state) = &mut recorded {
            if deployment.state.is_some() {
                // An earlier attempt has reported, and may have moved the state; the next one sends its own
                // report.
                state.record_end(deployment);
            }
            let earlier = self.applied.is_some_and(|applied| applied != deployment.id);
            if earlier && state.facts.is_none() && !state.vacant {
                state.doubt = state.doubt.or(Some(Doubt::Unrecorded));
            }
        }
        self.state = Some(EnvironmentState::at_launch(recorded, deployment, storage, former)?);
        Ok(())
    }

    /// The storage that `deployment`, which has the turn, uses, and the state handling of its job. `storage`
    /// is that of its runner, for an environment without a record; `unfinished` is the deployment that
    /// [`Self::unfinished`] names.
    pub fn state_for_job<'a>(
        &'a self,
        deployment: &Deployment,
        storage: &'a StateStorage,
        unfinished: Option<&Deployment>,
    ) -> (&'a StateStorage, StateTask) {
        let place = |storage| state_location(storage, self.uuid);
        let recorded = self.state.as_ref();
        let change = recorded.and_then(|state| state.change.as_ref());
        let moved = recorded.filter(|_| change.is_some_and(|change| !change.accept));
        let works_in = match (change, recorded) {
            (Some(change), _) => &change.to,
            (None, Some(state)) => &state.storage,
            (None, None) => storage,
        };
        let expected = recorded.and_then(|state| state.facts.clone());
        // A move looks for the state in its current storage, and then in the new one: an earlier move may
        // have succeeded.
        let looks_in = [works_in, moved.map_or(works_in, |state| &state.storage)];
        // The recorded facts may be from before the unfinished run, or from its own report, or from a later
        // read.
        let reported = recorded.and_then(|state| state.reported);
        let known_since = |earlier: &Deployment| {
            earlier.completed_at.zip(reported).is_some_and(|(end, reported)| reported.at >= end)
        };
        // Another platform than the last one's has another disk, or is another cluster.
        let runs_at = deployment.attempts.last().and_then(|attempt| attempt.ran_at.as_deref());
        let may_be_elsewhere = looks_in.iter().any(|one| one.storage_type().is_on_job_platform())
            && unfinished
                .is_some_and(|earlier| earlier.applied_at() != runs_at && !known_since(earlier));
        let task = StateTask {
            location: place(works_in),
            expected: expected.filter(|_| !deployment.accept_state),
            uncertain: recorded.is_some_and(|state| state.doubt.is_some())
                && !deployment.accept_state,
            must_exist: recorded.is_some_and(|state| state.must_exist(may_be_elsewhere))
                && !deployment.accept_state,
            unfinished: unfinished
                .filter(|of| recorded.is_some_and(|state| state.is_unfinished(of.id)))
                .filter(|of| !deployment.accept_state && !known_since(of))
                .map(UnfinishedRun::of),
            unwritten: recorded
                .and_then(|state| state.unwritten.clone())
                .filter(|_| !deployment.accept_state),
            vacant: recorded.is_some_and(|state| state.vacant && state.doubt.is_none()),
            accepted: deployment.accept_state,
            move_from: moved.map(|state| FormerStateLocation {
                location: place(&state.storage),
                backend: backend_file(&state.storage, self.uuid),
            }),
        };
        (works_in, task)
    }

    /// How many resources a run may delete, if limited: the lower of the requested limit and the
    /// environment's.
    pub fn allowed_deletions(&self, asked: Option<u32>) -> Option<u32> {
        let allowed = self.deletion_protection.map(|protection| protection.max_deletions);
        [asked, allowed].into_iter().flatten().min()
    }

    /// The record of its state, if the linked runner keeps state in `storage`. Environments that were last
    /// deployed by an earlier version of Canyon have no record: their state is in `storage`.
    pub fn recorded_state(&self, storage: &StateStorage) -> Option<EnvironmentState> {
        let unrecorded = || EnvironmentState::unrecorded(storage.clone());
        self.state.clone().or_else(|| self.applied.map(|_| unrecorded()))
    }

    /// Whether its state may contain resources, which would be abandoned if the environment were deleted or
    /// the state lost.
    pub fn may_hold_resources(&self) -> bool {
        match &self.state {
            // Before the first report, a deployment that began to apply may have created resources.
            Some(state) if state.facts.is_none() => {
                state.doubt.is_some() || (self.applied.is_some() && !state.vacant)
            }
            Some(state) => state.may_hold_resources(),
            None => self.applied.is_some(),
        }
    }

    /// The number of resources in its state if no deployment has applied: a user has put a state there for
    /// deployments to adopt. A destroy run would have no module.
    pub fn unadopted_resources(&self) -> Option<u32> {
        let facts = self.state.as_ref()?.facts.as_ref()?;
        Some(facts.resources).filter(|resources| *resources > 0 && self.applied.is_none())
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
