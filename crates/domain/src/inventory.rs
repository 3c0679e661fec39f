//! What an organization has: its environment types, projects, environments, runners and rules.

use crate::deployment::{Deployment, Mode, Status};
use crate::display_name::DisplayName;
use crate::failure::Phase;
use crate::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, PrincipalId, ProjectId, RuleId,
    RunnerId,
};
use crate::runner_rules::{Place, Scope};
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
    /// When it was made.
    pub created_at: Timestamp,
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
    /// The runner. It stays, whatever happens to the rules, until somebody refreshes it.
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
    /// The destroy run that ends with the environment's removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_by: Option<DeploymentId>,
    /// Grows with every write; each write is on condition that it has not changed.
    pub version: u64,
}

/// What becomes of an environment when a deployment in it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterEnd {
    /// It goes on; with the deployment whose turn comes now, if one waited.
    Stay(Box<Environment>, Option<DeploymentId>),
    /// That was its destroy run, and it succeeded: it goes.
    Remove,
}

impl Environment {
    /// Notes that `deployment` has the turn and is being launched, perhaps again.
    pub fn launching(&mut self, deployment: &Deployment) {
        let changes = deployment.changes_state() && deployment.mode != Mode::Destroy;
        if changes && self.applied != Some(deployment.id) {
            self.applied_before = self.applied.replace(deployment.id);
        }
    }

    /// Forgets a deployment that ended before its apply began. A module that does not even plan
    /// cannot destroy what an earlier one has made.
    fn settle_applied(&mut self, deployment: &Deployment) {
        if self.applied != Some(deployment.id) {
            return;
        }
        let before = self.applied_before.take();
        let began = deployment.attempts.iter().any(|attempt| attempt.phase >= Phase::Apply);
        if deployment.status != Status::Succeeded && !began {
            self.applied = before;
        }
    }

    /// What becomes of it now that `deployment` has ended.
    pub fn after_end(&self, deployment: &Deployment) -> AfterEnd {
        let mut after = self.clone();
        let next = after.turns.leave(deployment.id);
        if self.removed_by == Some(deployment.id) {
            if deployment.status == Status::Succeeded && after.turns.is_idle() {
                return AfterEnd::Remove;
            }
            after.removed_by = None;
            after.status = EnvironmentStatus::DeleteFailed;
            after.status_message = Some(format!(
                "the destroy run {} ended as {}: {}",
                deployment.id, deployment.status, deployment.message
            ));
        }
        after.settle_applied(deployment);
        if deployment.mode == Mode::Destroy
            && deployment.changes_state()
            && deployment.status == Status::Succeeded
        {
            after.applied = None;
        }
        after.version += 1;
        AfterEnd::Stay(Box::new(after), next)
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
    use serde_json::{Value, json};

    const ID: &str = "00000000-0000-7000-8000-000000000001";

    fn environment() -> Environment {
        let value = json!({
            "id": "dev", "uuid": ID, "project_id": "shop", "project_uuid": ID,
            "env_type_id": "development", "display_name": "Development", "status": "active",
            "runner_id": "laptop", "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z", "version": 1,
        });
        serde_json::from_value(value).unwrap()
    }

    fn deployment(number: u128, mode: &str, status: &str, phase: &str) -> Deployment {
        let attempt = json!({
            "number": 1, "fence": 1, "launched_at": "2026-01-01T00:00:00Z",
            "limits": { "start": 300, "run": 3_600, "stop": 30 }, "claim_hash": "h", "phase": phase,
        });
        let value = json!({
            "id": Uuid::from_u128(number), "project": "shop", "env": "dev", "env_uuid": ID,
            "runner": "laptop", "mode": mode, "plan_only": false, "status": status,
            "created_at": "2026-01-01T00:00:00Z", "created_by": ID, "attempts": [attempt],
            "message": "", "kept": Value::Object(serde_json::Map::new()), "version": 1,
        });
        serde_json::from_value(value).unwrap()
    }

    fn run(environment: &mut Environment, deployment: &Deployment) -> Option<u128> {
        environment.launching(deployment);
        // A second attempt is launched too.
        environment.launching(deployment);
        let AfterEnd::Stay(after, _) = environment.after_end(deployment) else {
            panic!("it is not being deleted");
        };
        *environment = *after;
        environment.applied.map(|id| id.0.as_u128())
    }

    #[test]
    fn a_destroy_undoes_the_last_deployment_that_began_to_apply() {
        let mut environment = environment();
        for (number, mode, status, phase, applied) in [
            (1, "deploy", "failed", "plan", None),
            (2, "deploy", "succeeded", "apply", Some(2)),
            (3, "deploy", "failed", "init", Some(2)),
            (4, "deploy", "cancelled", "plan", Some(2)),
            // Nothing was to be changed, so the module says the same.
            (5, "deploy", "succeeded", "plan", Some(5)),
            (6, "rollback", "failed", "apply", Some(6)),
            (7, "destroy", "failed", "apply", Some(6)),
            (8, "destroy", "succeeded", "apply", None),
            (9, "deploy", "failed", "plan", None),
        ] {
            let deployment = deployment(number, mode, status, phase);
            assert_eq!(run(&mut environment, &deployment), applied, "after {number}");
        }
    }
}
