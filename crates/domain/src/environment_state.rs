//! The record of an environment's OpenTofu state, and the comparison with the state that a run finds.
//!
//! The state lists every resource that OpenTofu manages. A run against another, an older or a missing state
//! creates everything a second time, and a destroy run finds nothing to destroy. So an environment records
//! the location of its state and what the last run left there ([`EnvironmentState`]), and each run compares
//! before its plan ([`compare`]). A change of storage is a move that an administrator has allowed, or it is
//! refused ([`EnvironmentState::at_launch`]).

use crate::attempt::{ApplyNote, Attempt};
use crate::backend::state_location;
use crate::deployment::{Deployment, Mode, Status};
use crate::ids::{DeploymentId, EnvUuid};
pub use crate::state_facts::{StateFacts, StateMismatch, StateReport, compare};
use crate::state_storage::StateStorage;
use crate::unwritten_state::UnwrittenState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The record of an environment's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentState {
    /// Its storage. It stays the same when the runner's definition changes, until the state is moved.
    pub storage: StateStorage,
    /// What the last run that reported left there; `None` before the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<StateFacts>,
    /// Why there may be more resources than the state, or [`Self::facts`], lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// The state that the last apply could not write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<UnwrittenState>,
    /// It had a state elsewhere, without resources: whatever has some here is not its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vacant: bool,
    /// The run that reported [`Self::facts`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// The storage to which an administrator has allowed the next run to move the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_move_to: Option<StateStorage>,
    /// The other storage that the deployment which has the turn uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<StorageChange>,
}

/// Why an environment may have more resources than its state lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// No run has reported the state: an earlier version of Canyon left it, or an administrator has accepted
    /// it.
    Unrecorded,
    /// This run began to apply, and its result never came; or it was killed, or could not write the state.
    Unfinished(DeploymentId),
    /// This run succeeded completely, and could not read the state afterwards: a state exists.
    Unseen(DeploymentId),
}

/// A report of a state's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The deployment.
    pub by: DeploymentId,
    /// Its attempt.
    pub attempt: u32,
    /// When the attempt's end was recorded.
    pub at: Timestamp,
}

/// A deployment uses a storage that the environment's state is not in yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageChange {
    /// The storage.
    pub to: StateStorage,
    /// An administrator has accepted the state in the new storage; otherwise the job first moves the state
    /// there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept: bool,
}

/// The runner's storage is not the one that holds the environment's state, and no administrator has allowed a
/// move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the state of this environment is in `{recorded}`, and its runner now keeps state in `{wanted}`: \
     running there would create everything a second time. An administrator can have the next run move \
     it (canyon refresh-runner PROJECT ENV --migrate), give the runner its former storage back, or \
     deploy with --accept-state to go on without that state"
)]
pub struct StorageMismatch {
    recorded: String,
    wanted: String,
}

impl EnvironmentState {
    /// A state in `storage` without recorded facts.
    pub fn in_storage(storage: StateStorage) -> Self {
        Self {
            storage,
            facts: None,
            doubt: None,
            unwritten: None,
            vacant: false,
            reported: None,
            may_move_to: None,
            change: None,
        }
    }

    /// A state that an earlier version of Canyon left in `storage` without a record.
    pub fn unrecorded(storage: StateStorage) -> Self {
        Self { doubt: Some(Doubt::Unrecorded), ..Self::in_storage(storage) }
    }

    /// Whether resources would be abandoned if the environment gave up this state.
    pub fn may_hold_resources(&self) -> bool {
        let is_known_to = self.facts.as_ref().is_some_and(|facts| facts.resources > 0);
        is_known_to || self.doubt.is_some() || self.unwritten.is_some()
    }

    /// Whether this deployment began to apply, and may have left more than the state lists.
    pub fn is_unfinished(&self, deployment: DeploymentId) -> bool {
        self.doubt == Some(Doubt::Unfinished(deployment))
    }

    /// Whether a state certainly exists, so that a run which finds none must fail: the state was lost, or is
    /// in the storage of another platform (`may_be_elsewhere`: each machine or cluster on which jobs run has
    /// a storage of its own).
    pub fn must_exist(&self, may_be_elsewhere: bool) -> bool {
        match self.doubt {
            Some(Doubt::Unseen(_)) => true,
            // The run has written a state as soon as it had something to write.
            Some(Doubt::Unfinished(_)) => may_be_elsewhere,
            Some(Doubt::Unrecorded) | None => false,
        }
    }

    /// The record after `deployment` is launched by a runner that keeps state in `storage`. `former` are
    /// storages from which the runner may move states. A plan is recorded too: it may find a state that a
    /// user put there.
    ///
    /// # Errors
    ///
    /// [`StorageMismatch`] if the environment's state is in another storage and may not move: the deployment must
    /// not run.
    pub fn at_launch(
        recorded: Option<Self>,
        deployment: &Deployment,
        storage: &StateStorage,
        former: &[StateStorage],
    ) -> Result<Self, StorageMismatch> {
        let env = deployment.state_id();
        let Some(mut state) = recorded else { return Ok(Self::in_storage(storage.clone())) };
        state.change = None;
        if same_location(&state.storage, storage, env) {
            state.storage = storage.clone();
            state.may_move_to = None;
            return Ok(state);
        }
        if !state.may_hold_resources() {
            let vacant = state.vacant || state.facts.is_some();
            return Ok(Self { vacant, ..Self::in_storage(storage.clone()) });
        }
        let change = |accept| Some(StorageChange { to: storage.clone(), accept });
        if deployment.accept_state {
            state.change = change(true);
            return Ok(state);
        }
        let is_former = |storage| former.iter().any(|from| same_location(from, storage, env));
        // The runner to which it may move may have another storage since.
        let allowed = is_former(&state.storage)
            || state.may_move_to.iter().any(|to| same_location(to, storage, env) || is_former(to));
        if !allowed {
            return Err(StorageMismatch {
                recorded: state_location(&state.storage, env),
                wanted: state_location(storage, env),
            });
        }
        // A plan changes nothing, so it reads the state in its current storage. A command on the state works there too.
        if deployment.changes_state() && deployment.mode != Mode::State {
            state.change = change(false);
        }
        Ok(state)
    }

    /// Records the end of `deployment`, or of its last attempt before the next one. A deployment without
    /// attempts never used the state.
    pub fn record_end(&mut self, deployment: &Deployment) {
        if deployment.attempts.is_empty() {
            return;
        }
        let change = self.change.take();
        let (began, moves) = (deployment.began_to_apply(), change.is_some());
        let has_to_move = change.as_ref().is_some_and(|change| !change.accept);
        if deployment.accept_state {
            let took_effect = began || deployment.status == Status::Succeeded;
            if !(deployment.changes_state() && took_effect) {
                // What such a run reports is not the environment's state.
                return;
            }
            let storage = change.map_or_else(|| self.storage.clone(), |change| change.to);
            // Without a report, the accepted state is unknown. So is everything that an earlier run has left.
            let unfinished = self.doubt.filter(|doubt| matches!(doubt, Doubt::Unfinished(_)));
            let unrecorded = Self::unrecorded(storage);
            *self = Self { doubt: unfinished.or(unrecorded.doubt), ..unrecorded };
        } else if let Some(change) = change
            && deployment.state.as_ref().is_some_and(|report| report.moved)
        {
            // A move counts when the run has reported it. Until then the state is in the former storage, and
            // the next run repeats the move.
            self.storage = change.to;
            self.may_move_to = None;
        }
        self.unwritten = UnwrittenState::after(self.unwritten.take(), deployment, began, moves);
        self.doubt = self.doubt_after(deployment, began, has_to_move);
        if let Some(report) = &deployment.state {
            self.facts = Some(report.facts.clone());
            self.reported = Some(Reported {
                by: deployment.id,
                attempt: deployment.attempts.last().map_or(0, |attempt| attempt.number),
                at: deployment.completed_at.unwrap_or(deployment.created_at),
            });
            self.vacant = false;
        }
    }

    /// The doubt after `deployment`, whose apply perhaps `began`. Only a complete deployment shows that the
    /// state lists every resource: a plan only reads the state, a destroy run and a command on the state find no more
    /// than it lists, and a partial run looks at a part.
    fn doubt_after(
        &self,
        deployment: &Deployment,
        began: bool,
        has_to_move: bool,
    ) -> Option<Doubt> {
        let report = deployment.state.as_ref();
        let creates = deployment.mode.creates();
        let succeeded = deployment.status == Status::Succeeded && deployment.changes_state();
        let is_whole = succeeded && !deployment.partial;
        let forgets = |attempt: &Attempt| attempt.apply == ApplyNote::Forgets;
        let may_leave_more = || creates || deployment.attempts.iter().any(forgets);
        let left_more = !succeeded
            && report.map_or_else(may_leave_more, |report| {
                report.incomplete || (creates && deployment.kept.orphans > 0)
            });
        let is_unwritten = self.unwritten.as_ref().is_some_and(|state| state.by == deployment.id);
        match (self.doubt, report) {
            // A run that moves the state announces its apply before its plan. If Canyon has read that it created nothing,
            // the earlier run stays in doubt.
            (Some(Doubt::Unfinished(earlier)), None)
                if has_to_move
                    && !is_unwritten
                    && !deployment.is_unsalvaged()
                    && deployment.kept.orphans == 0 =>
            {
                Some(Doubt::Unfinished(earlier))
            }
            _ if is_unwritten || (began && left_more) => Some(Doubt::Unfinished(deployment.id)),
            (Some(Doubt::Unrecorded | Doubt::Unseen(_)), Some(_)) => None,
            (_, Some(_)) if is_whole && creates => None,
            // The run has written its state, and could not read it afterwards.
            (_, None) if is_whole && began && creates => Some(Doubt::Unseen(deployment.id)),
            (None, None) if succeeded && began && creates => Some(Doubt::Unseen(deployment.id)),
            (doubt, _) => doubt,
        }
    }
}

/// Whether both storages hold the same state of `environment`, also if they are written differently.
pub fn same_location(one: &StateStorage, other: &StateStorage, environment: EnvUuid) -> bool {
    one.storage_type() == other.storage_type()
        && state_location(one, environment) == state_location(other, environment)
}

#[cfg(test)]
#[path = "environment_state_tests.rs"]
mod tests;
