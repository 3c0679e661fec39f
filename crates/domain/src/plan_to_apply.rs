//! Whether the kept plan of a deployment can be applied.

use crate::deployment::{Deployment, Mode, Status};
use crate::ids::{DeploymentId, EnvUuid};
use crate::kept_plan::{KeptPlan, MAX_AGE};
use jiff::Timestamp;

/// Why a plan cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApplicable {
    /// The deployment is not a plan of a module.
    #[error("deployment {0} is not a plan; make one: canyon plan")]
    NotAPlan(DeploymentId),
    /// It is the plan of another environment.
    #[error(
        "the plan of deployment {0} is for another environment, or for one that was deleted since"
    )]
    OtherEnvironment(DeploymentId),
    /// It has not succeeded.
    #[error("the plan of deployment {id} has not succeeded: it is {}", .status.as_str())]
    NotSucceeded {
        /// The deployment.
        id: DeploymentId,
        /// Its status.
        status: Status,
    },
    /// Its runner has kept no plan.
    #[error(
        "the plan of deployment {0} was not kept: its log says why, or its runner is older than this Canyon; plan again"
    )]
    NotKept(DeploymentId),
    /// It changes nothing.
    #[error("the plan of deployment {0} changes nothing, so there is nothing to apply")]
    NoChanges(DeploymentId),
    /// It is too old.
    #[error("the plan of deployment {id} is older than {} days; plan again", MAX_AGE.as_hours() / 24)]
    TooOld {
        /// The deployment.
        id: DeploymentId,
    },
}

impl Deployment {
    /// The plan of this deployment, for an apply in the environment `env`.
    ///
    /// # Errors
    ///
    /// [`NotApplicable`].
    pub fn plan_to_apply(&self, env: EnvUuid, now: Timestamp) -> Result<&KeptPlan, NotApplicable> {
        let id = self.id;
        let plans = self.plan_only && !matches!(self.mode, Mode::State | Mode::Drift);
        if !plans || self.container.is_some() {
            return Err(NotApplicable::NotAPlan(id));
        }
        if self.env_uuid != env {
            return Err(NotApplicable::OtherEnvironment(id));
        }
        if self.status != Status::Succeeded {
            return Err(NotApplicable::NotSucceeded { id, status: self.status });
        }
        let plan = self.plan.as_deref().ok_or(NotApplicable::NotKept(id))?;
        if plan.parts == 0 {
            return Err(NotApplicable::NoChanges(id));
        }
        if self.completed_at.is_none_or(|end| now > end + MAX_AGE) {
            return Err(NotApplicable::TooOld { id });
        }
        Ok(plan)
    }
}
