//! What people call a deployment: a plan, a deploy, a destroy, a rollback, a command on the state or a check for drift.

use crate::deployment::Deployment;
use crate::mode::Mode;
use crate::requested_role::RequestedRole;

/// A [`Mode`], where a deployment of any mode that stops after its plan is a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// It stops after its plan.
    Plan,
    /// It applies the module.
    Deploy,
    /// It destroys everything in the environment's state.
    Destroy,
    /// It repeats a former deployment.
    Rollback,
    /// It runs a command on the state.
    State,
    /// It compares the environment with what was deployed last.
    Drift,
}

impl RunKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Plan, Self::Deploy, Self::Destroy, Self::Rollback, Self::State, Self::Drift];

    /// The kind of a deployment.
    pub fn of(deployment: &Deployment) -> Self {
        match deployment.mode {
            Mode::State => Self::State,
            Mode::Drift => Self::Drift,
            _ if deployment.plan_only => Self::Plan,
            Mode::Deploy => Self::Deploy,
            Mode::Destroy => Self::Destroy,
            Mode::Rollback => Self::Rollback,
        }
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Deploy => "deploy",
            Self::Destroy => "destroy",
            Self::Rollback => "rollback",
            Self::State => "state",
            Self::Drift => "drift",
        }
    }

    /// What a deployment does, as the details of its audit records: `mode: ` with the name in the API; of a plan also which
    /// run it is the plan of; of a rollback the deployment that it repeats; the named role and its reason.
    pub fn details_of(deployment: &Deployment) -> Vec<String> {
        let kind = Self::of(deployment);
        let mut details = vec![format!("mode: {}", kind.as_str())];
        if kind == Self::Plan && deployment.mode != Mode::Deploy {
            details.push(format!("of a {} run", deployment.mode.as_str()));
        }
        details.extend(deployment.resource().map(|name| format!("resource: {name}")));
        details.extend(deployment.rollback_to.map(|id| format!("repeats deployment {id}")));
        details.extend(deployment.role.iter().flat_map(RequestedRole::details));
        details
    }
}
