//! The deletion of an environment with what is in it: a destroy run for each of its resources, the newest first, since it may need
//! an older one; then one for its module. The environment is gone after the last of them.
//!
//! All of them are accepted before the first one starts, so that an interrupted request destroys nothing. If one fails, those
//! after it end without a launch: what they would destroy may still be needed.

use crate::deployment::{Deployment, Mode};
use crate::failure::{Failure, FailureClass};
use crate::inventory::{Environment, EnvironmentStatus};
use crate::resource_name::ResourceName;
use jiff::{SignedDuration, Timestamp};

/// How long a request to delete an environment may take until its last run is accepted.
const ACCEPTANCE: SignedDuration = SignedDuration::from_mins(2);
/// How often a run looks whether the last one is accepted.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// Whether a destroy run of a deletion may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalTurn {
    /// It may; or it is part of no deletion.
    Go,
    /// The last run is not accepted yet: look again then.
    Wait(Timestamp),
    /// It ends without a launch.
    End(Failure),
}

impl Environment {
    /// What its deletion destroys, in this order; `None` stands for its module.
    pub fn removal_steps(&self) -> Vec<Option<ResourceName>> {
        let resources = self.resources.iter().rev().map(|resource| Some(resource.name.clone()));
        let has_module = self.module.applied.is_some() || self.module.may_hold_resources();
        let module = has_module.then_some(None);
        resources.chain(module).collect()
    }

    /// Whether `deployment`, which has the turn, may start as far as a deletion is concerned.
    pub fn removal_turn(&self, deployment: &Deployment, now: Timestamp) -> RemovalTurn {
        if !deployment.of_removal {
            return RemovalTurn::Go;
        }
        if self.status != EnvironmentStatus::Deleting {
            let message = "the deletion of its environment stopped before its turn";
            return RemovalTurn::End(Failure::new(FailureClass::Cancelled, message));
        }
        if self.removed_by.is_some() {
            return RemovalTurn::Go;
        }
        if now < deployment.created_at + ACCEPTANCE {
            return RemovalTurn::Wait(now + PAUSE);
        }
        let message = format!(
            "the request to delete environment `{0}` was interrupted before it was complete: repeat it with `canyon delete \
             environment {1} {0}`",
            self.id, self.project_id
        );
        RemovalTurn::End(Failure::new(FailureClass::Lost, message))
    }

    /// The names of its resources, for a message; empty if there are none.
    pub(crate) fn resources_left(&self) -> String {
        let names: Vec<_> =
            self.resources.iter().map(|resource| format!("`{}`", resource.name)).collect();
        if names.is_empty() { String::new() } else { format!("; left are {}", names.join(", ")) }
    }
}

impl Deployment {
    /// What it destroys, in words.
    pub fn destroyed(&self) -> String {
        match (self.resource(), self.mode) {
            (Some(resource), Mode::Destroy) => format!("resource `{resource}`"),
            _ => "the module".to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "environment_removal_tests.rs"]
mod tests;
