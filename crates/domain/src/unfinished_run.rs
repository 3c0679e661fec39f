//! A run that began to apply and ended without a result, and the evidence that its job left.
//!
//! The run may have created resources that no state lists. Its job's events name them, and say whether OpenTofu
//! could write the state. The launcher reads them when the platform has proved the job gone. If that is not
//! possible when the attempt ends, for example because the machine of the agent is cut off, the attempt is
//! [`Salvage::Pending`] and the launcher reads them later. Until then a run that finds the state from before
//! the unfinished one must not create everything a second time.

use crate::attempt::{Attempt, Salvage};
use crate::deployment::Deployment;
use crate::ids::DeploymentId;
use crate::state_facts::StateFacts;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A run of the environment that ended without a result, and since which no run has reported the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedRun {
    /// The deployment.
    pub by: DeploymentId,
    /// Canyon has not read what its job left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsalvaged: bool,
}

impl UnfinishedRun {
    /// The run of this deployment.
    pub fn of(deployment: &Deployment) -> Self {
        Self { by: deployment.id, unsalvaged: deployment.is_unsalvaged() }
    }

    /// Whether a run must not plan on the state `found`. `before` is the state from before the unfinished run:
    /// if nothing has been written since, what that run created may be in no state. Some storages create an empty
    /// state by themselves.
    pub fn forbids(&self, before: Option<&StateFacts>, found: Option<&StateFacts>) -> bool {
        let is_unwritten = match (before, found) {
            (Some(before), Some(found)) => {
                (&before.lineage, before.serial) == (&found.lineage, found.serial)
            }
            (None, Some(found)) => found.resources == 0,
            // Another check refuses a state that is missing.
            (Some(_), None) => false,
            (None, None) => true,
        };
        self.unsalvaged && is_unwritten
    }
}

impl Deployment {
    /// Whether Canyon has not read what the job of an attempt left.
    pub fn is_unsalvaged(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.salvage != Salvage::Done)
    }

    /// The attempt of which Canyon must still read what its job left.
    pub fn to_salvage(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.salvage == Salvage::Pending)
    }

    /// Records how far Canyon is with reading what the job of attempt `number` left. A later hint that the job is
    /// gone counts again.
    pub fn set_salvage(&mut self, number: u32, salvage: Salvage, now: Timestamp) {
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.number == number) {
            attempt.salvage = salvage;
            attempt.salvaged_at =
                (attempt.ended.is_some() && salvage != Salvage::Pending).then_some(now);
            attempt.suspected = false;
        }
    }

    /// Records when Canyon writes what it has read late of attempt `number`: only after that does a claim know of it.
    pub fn set_salvaged_at(&mut self, number: u32, now: Timestamp) {
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.number == number) {
            attempt.salvaged_at = attempt.salvaged_at.and(Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn facts(lineage: &str, serial: u64) -> StateFacts {
        let resources = u32::from(serial > 0);
        StateFacts { lineage: lineage.to_owned(), serial, resources, digest: None }
    }

    #[test]
    fn only_a_state_that_was_written_since_may_be_planned_on_while_the_remains_are_unread() {
        let by = DeploymentId(Uuid::from_u128(1));
        let unread = UnfinishedRun { by, unsalvaged: true };
        for (before, found, forbidden) in [
            (Some(facts("a", 1)), Some(facts("a", 1)), true),
            (Some(facts("a", 1)), Some(facts("a", 2)), false),
            (None, None, true),
            (None, Some(facts("a", 0)), true),
            (None, Some(facts("a", 1)), false),
        ] {
            assert_eq!(unread.forbids(before.as_ref(), found.as_ref()), forbidden, "{found:?}");
            let read = UnfinishedRun { by, unsalvaged: false };
            assert!(!read.forbids(before.as_ref(), found.as_ref()), "{found:?}");
        }
    }
}
