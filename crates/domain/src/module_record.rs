//! What Canyon knows of a module that an environment has deployed: its own, or that of one of its resources.

use crate::backend::{backend_file, state_location};
use crate::deployment::{Deployment, Mode, Status};
use crate::environment_state::{Doubt, EnvironmentState, StorageMismatch};
use crate::ids::DeploymentId;
use crate::job::{FormerStateLocation, StateTask};
use crate::state_storage::StateStorage;
use crate::unfinished_run::UnfinishedRun;
use serde::{Deserialize, Serialize};

/// The deployments of a module that count, and its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// The last deployment that began to change its state; a destroy run uses its module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<DeploymentId>,
    /// The previous value of [`Self::applied`], while that deployment may still end without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_before: Option<DeploymentId>,
    /// The last deployment that succeeded, without plans; `None` also if that was before an update of Canyon.
    #[serde(rename = "succeeded", default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<DeploymentId>,
    /// The record of its state; `None` before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EnvironmentState>,
}

impl ModuleRecord {
    /// That of a module before its first launch.
    pub(crate) const NEW: Self =
        Self { applied: None, applied_before: None, last_success: None, state: None };

    /// Records that `deployment` has the turn and is being launched, perhaps again.
    pub(crate) fn record_launch(&mut self, deployment: &Deployment) {
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
    /// [`StorageMismatch`] if the state is in another storage: the deployment must not run.
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
    /// is that of its runner, for a module without a record; `unfinished` is the deployment that
    /// [`Self::unfinished`] names.
    pub fn state_for_job<'a>(
        &'a self,
        deployment: &Deployment,
        storage: &'a StateStorage,
        unfinished: Option<&Deployment>,
    ) -> (&'a StateStorage, StateTask) {
        let id = deployment.state_id();
        let place = |storage| state_location(storage, id);
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
                backend: backend_file(&state.storage, id),
            }),
        };
        (works_in, task)
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

    /// Records the end of `deployment`, which has left `left` resources in its state.
    pub(crate) fn record_end(&mut self, deployment: &Deployment, left: u32) {
        let known = self.state.as_ref().and_then(|state| state.facts.as_ref());
        let is_seen = deployment.state.is_some()
            || (deployment.counts.is_some() && !deployment.partial)
            || known.is_none_or(|facts| facts.resources == 0);
        if let Some(state) = &mut self.state {
            state.record_end(deployment);
        }
        self.settle_applied(deployment);
        if deployment.mode == Mode::Destroy
            && deployment.changes_state()
            && deployment.status == Status::Succeeded
            && left == 0
            // Otherwise the next destroy run checks again.
            && is_seen
        {
            self.applied = None;
            // The run found no state, so it could not report one: an earlier version of Canyon has left none.
            let unrecorded = |state: &&mut EnvironmentState| state.doubt == Some(Doubt::Unrecorded);
            if let Some(state) = self.state.as_mut().filter(unrecorded) {
                state.doubt = None;
            }
        }
        if deployment.deploys_whole() {
            self.last_success = Some(deployment.id);
        }
    }

    /// Clears `applied` for a deployment that ended before its apply began. A module that does not even plan
    /// cannot destroy what an earlier one has created.
    fn settle_applied(&mut self, deployment: &Deployment) {
        if self.applied != Some(deployment.id) {
            return;
        }
        let before = self.applied_before.take();
        let began = deployment.began_to_apply();
        if deployment.status != Status::Succeeded && !began {
            self.applied = before;
        }
    }

    /// Canyon has read what the job of `deployment` left, after the deployment's end. Returns whether the
    /// environment changes: if another run has shown since that the state is right, it does not.
    pub fn salvaged(&mut self, deployment: &Deployment) -> bool {
        let Some(state) = &mut self.state else { return false };
        let creates = deployment.mode.creates();
        let read = deployment.attempts.iter().rev().find_map(|of| of.unwritten.clone());
        let read = read.filter(|_| creates);
        let is_of_another = state.unwritten.as_ref().is_some_and(|known| known.by != deployment.id);
        if !state.is_unfinished(deployment.id)
            || state.unwritten == read
            || (read.is_none() && is_of_another)
        {
            return false;
        }
        state.unwritten = read;
        true
    }

    /// The run that may have created more resources than the state lists.
    pub fn unfinished(&self) -> Option<DeploymentId> {
        match self.state.as_ref()?.doubt? {
            Doubt::Unfinished(deployment) | Doubt::Unseen(deployment) => Some(deployment),
            Doubt::Unrecorded => None,
        }
    }
}

impl Deployment {
    /// Whether it has succeeded, and was more than a plan or a command on the state.
    pub(crate) fn deploys_whole(&self) -> bool {
        self.status == Status::Succeeded && self.changes_state() && self.mode != Mode::State
    }
}
