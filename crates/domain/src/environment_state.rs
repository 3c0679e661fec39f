//! What an environment knows of its state, and whether a run may work on what it finds.
//!
//! The state lists every resource that OpenTofu manages. A run against another, an older or a missing
//! one creates everything a second time, and a destroy run finds nothing to destroy. So an environment
//! records where its state lies and what the last run left there ([`EnvironmentState`]), each run
//! compares before its plan ([`compare`]), and a change of storage is either a move that an
//! administrator has allowed, or refused ([`EnvironmentState::at_launch`]).

use crate::attempt::{ApplyNote, Attempt};
use crate::backend::state_location;
use crate::deployment::{Deployment, Mode, Status};
use crate::ids::{DeploymentId, EnvUuid};
use crate::state_storage::StateStorage;
use crate::unwritten_state::UnwrittenState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What identifies one version of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFacts {
    /// OpenTofu draws it when it makes a state, and never changes it.
    pub lineage: String,
    /// Grows with each write.
    pub serial: u64,
    /// Managed resource instances; data sources do not count.
    pub resources: u32,
    /// SHA-256 of their addresses, in their order, in hexadecimal digits. Runner images of earlier versions report none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl StateFacts {
    fn is_same(&self, other: &Self) -> bool {
        let both = self.digest.as_ref().zip(other.digest.as_ref());
        (&self.lineage, self.serial, self.resources)
            == (&other.lineage, other.serial, other.resources)
            && both.is_none_or(|(one, other)| one == other)
    }
}

/// What a run has found in its state storage instead of the state that the environment has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateMismatch {
    /// Nothing.
    #[error(
        "there is no state, although the last run left one with {resources} resources (serial {serial})"
    )]
    Missing {
        /// In the state that is missing.
        resources: u32,
        /// Of the state that is missing.
        serial: u64,
    },
    /// A state that was made independently.
    #[error("the state there has the lineage `{found}`, and this environment's has `{expected}`")]
    OtherLineage {
        /// What the environment knows.
        expected: String,
        /// What lies there.
        found: String,
    },
    /// The version that the last run left, with other resources: it was edited, or restored and written again.
    #[error(
        "the state there has the serial {serial} that the last run left, but {found} resources instead of {expected}"
    )]
    Altered {
        /// Of both.
        serial: u64,
        /// Resources that the environment knows.
        expected: u32,
        /// Resources that lie there.
        found: u32,
    },
    /// The same, with as many resources.
    #[error("the state there has the serial {serial} that the last run left, but other resources")]
    Exchanged {
        /// Of both.
        serial: u64,
    },
    /// A state that the environment has left behind, such as a restored backup.
    #[error(
        "the state there is older (serial {found}) than what the last run left (serial {expected})"
    )]
    Older {
        /// What the environment knows.
        expected: u64,
        /// What lies there.
        found: u64,
    },
}

/// Compares the state that the environment has with the one that a run has found. A newer serial of the
/// same lineage is right: a run that was killed may have written it.
///
/// A state without resources may be gone, or be another one without resources: nothing is abandoned with it. Not so if
/// there may be more in it than `expected` says, because a run that began to apply has not reported (`uncertain`).
///
/// # Errors
///
/// [`StateMismatch`]: the run must not plan.
pub fn compare(
    expected: Option<&StateFacts>,
    uncertain: bool,
    found: Option<&StateFacts>,
) -> Result<(), StateMismatch> {
    let Some(expected) = expected else { return Ok(()) };
    let is_newer =
        |found: &StateFacts| found.lineage == expected.lineage && found.serial > expected.serial;
    match found {
        Some(found) if found.is_same(expected) || is_newer(found) => Ok(()),
        _ if expected.resources == 0
            && !uncertain
            && found.is_none_or(|found| found.resources == 0) =>
        {
            Ok(())
        }
        Some(found) if found.lineage == expected.lineage && found.serial == expected.serial => {
            if found.resources == expected.resources {
                return Err(StateMismatch::Exchanged { serial: expected.serial });
            }
            Err(StateMismatch::Altered {
                serial: expected.serial,
                expected: expected.resources,
                found: found.resources,
            })
        }
        None => {
            Err(StateMismatch::Missing { resources: expected.resources, serial: expected.serial })
        }
        Some(found) if found.lineage == expected.lineage => {
            Err(StateMismatch::Older { expected: expected.serial, found: found.serial })
        }
        Some(found) => Err(StateMismatch::OtherLineage {
            expected: expected.lineage.clone(),
            found: found.lineage.clone(),
        }),
    }
}

/// What an environment knows of its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentState {
    /// Where it lies. It stays there when the runner's definition changes, until it is moved.
    pub storage: StateStorage,
    /// What the last run that reported left there; nothing before the first report.
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
    /// Which run reported [`Self::facts`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// Where an administrator has allowed the next run to move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_move_to: Option<StateStorage>,
    /// The other storage that the deployment which has the turn works with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<StorageChange>,
}

/// Why an environment may have more resources than its state lists, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// No run has reported the state: an earlier version of Canyon has left it, or an administrator has accepted it.
    Unrecorded,
    /// This run began to apply, and its result never came; or it was killed, or could not write the state.
    Unfinished(DeploymentId),
    /// This run succeeded as a whole, and could not look at the state afterwards: there is one.
    Unseen(DeploymentId),
}

/// A report of a state's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The deployment.
    pub by: DeploymentId,
    /// Its attempt.
    pub attempt: u32,
    /// When its end was written.
    pub at: Timestamp,
}

/// A deployment works with a storage that the environment's state does not lie in yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageChange {
    /// The storage.
    pub to: StateStorage,
    /// An administrator said to take what lies there; otherwise the job moves the state there first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept: bool,
}

/// What a run has seen of its state at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateReport {
    /// What lies there now.
    #[serde(flatten)]
    pub facts: StateFacts,
    /// The run has moved it there from the former storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// The run has begun to apply, and there may be something that the state does not list: what it created, or left
    /// behind instead of destroying it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A runner's storage is not the one that the environment's state lies in, and no administrator has allowed a move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the state of this environment lies in `{recorded}`, and its runner now keeps state in `{wanted}`: \
     running there would create everything a second time. An administrator can have the next run move \
     it (canyon refresh-runner PROJECT ENV --migrate), give the runner its former storage back, or \
     deploy with --accept-state to go on without that state"
)]
pub struct Misplaced {
    recorded: String,
    wanted: String,
}

impl EnvironmentState {
    /// A state in `storage` of which nothing is known yet.
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

    /// A state that an earlier version of Canyon has left in `storage` without a record.
    pub fn unrecorded(storage: StateStorage) -> Self {
        Self { doubt: Some(Doubt::Unrecorded), ..Self::in_storage(storage) }
    }

    /// Whether resources would be abandoned if the state were left where it is.
    pub fn may_hold_resources(&self) -> bool {
        let is_known_to = self.facts.as_ref().is_some_and(|facts| facts.resources > 0);
        is_known_to || self.doubt.is_some() || self.unwritten.is_some()
    }

    /// Whether there is a state for certain, so that finding none means that it was lost, or is another job's elsewhere
    /// (`may_be_elsewhere`: each place where jobs run has a storage of its own).
    pub fn must_exist(&self, may_be_elsewhere: bool) -> bool {
        match self.doubt {
            Some(Doubt::Unseen(_)) => true,
            // It has written one as soon as there was something to write.
            Some(Doubt::Unfinished(_)) => may_be_elsewhere,
            Some(Doubt::Unrecorded) | None => false,
        }
    }

    /// What becomes of the record when `deployment` is launched by a runner that keeps state in
    /// `storage`. `former` are storages from which the runner may move states. A plan is recorded too: it may find a
    /// state that was put there by hand.
    ///
    /// # Errors
    ///
    /// [`Misplaced`]: the deployment must not run.
    pub fn at_launch(
        recorded: Option<Self>,
        deployment: &Deployment,
        storage: &StateStorage,
        former: &[StateStorage],
    ) -> Result<Self, Misplaced> {
        let env = deployment.env_uuid;
        let Some(mut state) = recorded else { return Ok(Self::in_storage(storage.clone())) };
        state.change = None;
        if same_place(&state.storage, storage, env) {
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
        let is_former = |place| former.iter().any(|from| same_place(from, place, env));
        // The runner that it may move to may have been given another storage since.
        let allowed = is_former(&state.storage)
            || state.may_move_to.iter().any(|to| same_place(to, storage, env) || is_former(to));
        if !allowed {
            return Err(Misplaced {
                recorded: state_location(&state.storage, env),
                wanted: state_location(storage, env),
            });
        }
        // A plan changes nothing, so it looks at the state where it is.
        if deployment.changes_state() {
            state.change = change(false);
        }
        Ok(state)
    }

    /// Takes in the end of `deployment`, or of its last attempt, before the next one. One that was never launched had
    /// nothing to do with the state.
    pub fn settle(&mut self, deployment: &Deployment) {
        if deployment.attempts.is_empty() {
            return;
        }
        let change = self.change.take();
        let (began, moves) = (deployment.began_to_apply(), change.is_some());
        if deployment.accept_state {
            let took_effect = began || deployment.status == Status::Succeeded;
            if !(deployment.changes_state() && took_effect) {
                // What such a run has seen is not the environment's state.
                return;
            }
            let storage = change.map_or_else(|| self.storage.clone(), |change| change.to);
            // Unless it has reported, what was accepted is not known. Nor is all that an earlier run has left.
            let unfinished = self.doubt.filter(|doubt| matches!(doubt, Doubt::Unfinished(_)));
            let unrecorded = Self::unrecorded(storage);
            *self = Self { doubt: unfinished.or(unrecorded.doubt), ..unrecorded };
        } else if let Some(change) = change
            && deployment.state.as_ref().is_some_and(|report| report.moved)
        {
            // A move counts when the run has reported it. Until then the state is where it was, and
            // the next run moves it again.
            self.storage = change.to;
            self.may_move_to = None;
        }
        self.unwritten = UnwrittenState::after(self.unwritten.take(), deployment, began, moves);
        self.doubt = self.doubt_after(deployment, began);
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

    /// What is in doubt after `deployment`, whose apply perhaps `began`. Only a whole deployment shows that the state has
    /// all that there should be: a plan reads what lies there, and a destroy run finds no more than that.
    fn doubt_after(&self, deployment: &Deployment, began: bool) -> Option<Doubt> {
        let report = deployment.state.as_ref();
        let is_destroy = deployment.mode == Mode::Destroy;
        let is_whole = deployment.status == Status::Succeeded && deployment.changes_state();
        let forgets = |attempt: &Attempt| attempt.apply == ApplyNote::Forgets;
        let may_leave_more = || !is_destroy || deployment.attempts.iter().any(forgets);
        let left_more = !is_whole
            && report.map_or_else(may_leave_more, |report| {
                report.incomplete || (!is_destroy && deployment.kept.orphans > 0)
            });
        let is_unwritten = self.unwritten.as_ref().is_some_and(|state| state.by == deployment.id);
        match (self.doubt, report) {
            _ if is_unwritten || (began && left_more) => Some(Doubt::Unfinished(deployment.id)),
            (Some(Doubt::Unrecorded | Doubt::Unseen(_)), Some(_)) => None,
            (_, Some(_)) if is_whole && !is_destroy => None,
            // It has written its state, and could not look at it afterwards.
            (_, None) if is_whole && began && !is_destroy => Some(Doubt::Unseen(deployment.id)),
            (doubt, _) => doubt,
        }
    }
}

/// Whether both storages lead to the same state of `environment`, however they are written.
pub fn same_place(one: &StateStorage, other: &StateStorage, environment: EnvUuid) -> bool {
    one.storage_type() == other.storage_type()
        && state_location(one, environment) == state_location(other, environment)
}

#[cfg(test)]
#[path = "environment_state_tests.rs"]
mod tests;
