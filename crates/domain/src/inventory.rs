//! What an organization has: its environment types, projects, environments, runners and rules.

use crate::backend::{backend_file, state_location};
use crate::deployment::{Deployment, Mode};
use crate::display_name::DisplayName;
use crate::environment_state::{Doubt, EnvironmentState, Misplaced};
use crate::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, PrincipalId, ProjectId, RuleId,
    RunnerId,
};
use crate::job::{FormerPlace, StateTask};
use crate::runner_rules::{Place, Scope};
use crate::state_storage::StateStorage;
use crate::turn::Turns;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An organization: who deploys. Nothing of it is seen by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// Its name.
    pub id: OrgId,
    /// This life of it.
    pub uuid: OrgUuid,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: PrincipalId,
    /// Whether an agent may ask to be adopted.
    #[serde(default, skip_serializing_if = "AgentRequests::is_default")]
    pub agent_requests: AgentRequests,
}

impl Organization {
    /// A new organization, with the defaults of its settings.
    pub fn new(id: OrgId, uuid: OrgUuid, created_at: Timestamp, created_by: PrincipalId) -> Self {
        Self { id, uuid, created_at, created_by, agent_requests: AgentRequests::default() }
    }
}

/// What becomes of an agent that shows a key of its own, and that neither a token nor a runner's key vouches for.
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
    /// This life of it.
    pub uuid: Uuid,
    /// What people call it.
    pub display_name: DisplayName,
    /// What a new environment of this type begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Ends each run of an environment whose plan deletes or replaces more resources than this allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionProtection {
    /// How many a run may delete or replace.
    pub max_deletions: u32,
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its name, or the path of groups that ends in it.
    pub id: ProjectId,
    /// This life of it.
    pub uuid: Uuid,
    /// What people call it.
    pub display_name: DisplayName,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether an environment is in use. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentStatus {
    /// It takes deployments.
    Active,
    /// A destroy run empties it; then it is gone.
    Deleting,
    /// The destroy run failed; it may be deleted again.
    DeleteFailed,
}

/// An environment of a project, and the runner that it is linked to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Its name.
    pub id: EnvId,
    /// This life of it; names its state.
    pub uuid: EnvUuid,
    /// The project.
    pub project_id: ProjectId,
    /// Which life of the project.
    pub project_uuid: Uuid,
    /// Its type.
    pub env_type_id: EnvTypeId,
    /// What people call it.
    pub display_name: DisplayName,
    /// Whether it is in use.
    pub status: EnvironmentStatus,
    /// The status in words, where it says more than its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The runner. It stays, whatever happens to the rules, until a user refreshes it.
    pub runner_id: RunnerId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Who deploys in it, and who waits.
    #[serde(default)]
    pub turns: Turns,
    /// The last deployment that began to change its state; what a destroy run undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<DeploymentId>,
    /// The one before, as long as [`Self::applied`] may still end without having changed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_before: Option<DeploymentId>,
    /// Where its state lies, and what the last run left there; nothing before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EnvironmentState>,
    /// How much a run may delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<DeletionProtection>,
    /// The destroy run that ends with the environment's removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_by: Option<DeploymentId>,
    /// Grows with every write; each write is on condition that it has not changed.
    pub version: u64,
}

impl Environment {
    /// Notes that `deployment` has the turn and is being launched, perhaps again.
    pub fn launching(&mut self, deployment: &Deployment) {
        let changes = deployment.changes_state() && deployment.mode != Mode::Destroy;
        if changes && self.applied != Some(deployment.id) {
            self.applied_before = self.applied.replace(deployment.id);
        }
    }

    /// Notes where `deployment`, which is being launched, works on the state: its runner keeps state in
    /// `storage`, and may move states there from those in `former`.
    ///
    /// # Errors
    ///
    /// [`Misplaced`] when the environment's state lies elsewhere: the deployment must not run.
    pub fn place_state(
        &mut self,
        deployment: &Deployment,
        storage: &StateStorage,
        former: &[StateStorage],
    ) -> Result<(), Misplaced> {
        let mut recorded = self.recorded_state(storage);
        if let Some(state) = &mut recorded {
            if deployment.state.is_some() {
                // An earlier attempt has reported, and may have moved it; the next one reports for itself.
                state.settle(deployment);
            }
            let earlier = self.applied.is_some_and(|applied| applied != deployment.id);
            if earlier && state.facts.is_none() && !state.vacant {
                state.doubt = state.doubt.or(Some(Doubt::Unrecorded));
            }
        }
        self.state = Some(EnvironmentState::at_launch(recorded, deployment, storage, former)?);
        Ok(())
    }

    /// The storage that `deployment`, which has the turn, works with, and what its job does about the
    /// state there. `storage` is that of its runner, for what was launched without a record; `unfinished` the deployment
    /// that [`Self::unfinished`] names.
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
        // A move looks for the state where it lies, and then where it goes: an earlier one may have got there.
        let looks_in = [works_in, moved.map_or(works_in, |state| &state.storage)];
        // What is known may be of the time before the unfinished run, or its own report, or of a look after it.
        let reported = recorded.and_then(|state| state.reported);
        let known_since = |earlier: &Deployment| {
            earlier.completed_at.zip(reported).is_some_and(|(end, reported)| reported.at >= end)
        };
        // Another place than the last one's has another disk, or is another cluster.
        let runs_at = deployment.attempts.last().and_then(|attempt| attempt.ran_at.as_deref());
        let may_be_elsewhere = looks_in.iter().any(|one| one.storage_type().is_where_jobs_run())
            && unfinished
                .is_some_and(|earlier| earlier.applied_at() != runs_at && !known_since(earlier));
        let task = StateTask {
            place: place(works_in),
            expected: expected.filter(|_| !deployment.accept_state),
            uncertain: recorded.is_some_and(|state| state.doubt.is_some())
                && !deployment.accept_state,
            must_exist: recorded.is_some_and(|state| state.must_exist(may_be_elsewhere))
                && !deployment.accept_state,
            unwritten: recorded
                .and_then(|state| state.unwritten.clone())
                .filter(|_| !deployment.accept_state),
            vacant: recorded.is_some_and(|state| state.vacant && state.doubt.is_none()),
            accepted: deployment.accept_state,
            move_from: moved.map(|state| FormerPlace {
                place: place(&state.storage),
                backend: backend_file(&state.storage, self.uuid),
            }),
        };
        (works_in, task)
    }

    /// How many resources a run may delete, if there is a limit: the one that was asked for, and no more
    /// than the environment allows.
    pub fn allowed_deletions(&self, asked: Option<u32>) -> Option<u32> {
        let allowed = self.deletion_protection.map(|protection| protection.max_deletions);
        [asked, allowed].into_iter().flatten().min()
    }

    /// What is known of its state, when the linked runner keeps state in `storage`. Environments that
    /// were last deployed by an earlier version of Canyon have no record: their state is there.
    pub fn recorded_state(&self, storage: &StateStorage) -> Option<EnvironmentState> {
        let unrecorded = || EnvironmentState::unrecorded(storage.clone());
        self.state.clone().or_else(|| self.applied.map(|_| unrecorded()))
    }

    /// Whether resources may be in its state, so that deleting it, or losing its state, would abandon
    /// them.
    pub fn may_hold_resources(&self) -> bool {
        match &self.state {
            // Until a first run has reported, what began to apply may have made something.
            Some(state) if state.facts.is_none() => {
                state.doubt.is_some() || (self.applied.is_some() && !state.vacant)
            }
            Some(state) => state.may_hold_resources(),
            None => self.applied.is_some(),
        }
    }

    /// How many resources are known to be in its state although no deployment is known to have applied: a state that
    /// was put there by hand, for deployments to adopt. A destroy run would have no module.
    pub fn unadopted(&self) -> Option<u32> {
        let facts = self.state.as_ref()?.facts.as_ref()?;
        Some(facts.resources).filter(|resources| *resources > 0 && self.applied.is_none())
    }

    /// What rules are matched against.
    pub fn place(&self) -> Place {
        Place { project: self.project_id.clone(), env_type: self.env_type_id.clone() }
    }
}

/// "Use this runner for these environments."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerRule {
    /// Its id.
    pub id: RuleId,
    /// The runner to use.
    pub runner_id: RunnerId,
    /// Where to use it.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_organization_of_before_its_settings_allows_requests_and_is_written_as_it_was() {
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
