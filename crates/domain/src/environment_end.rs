//! The effect of a deployment's end on its environment.

use crate::backend::state_location;
use crate::deployment::{Deployment, Status};
use crate::ids::DeploymentId;
use crate::inventory::{Environment, EnvironmentStatus};
use crate::module_record::ModuleRecord;
use crate::resource_count::Resources;

/// An environment after a deployment in it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterEnd {
    /// It stays; with the next deployment that gets the turn, if one waits.
    Stay(Box<Environment>, Option<DeploymentId>),
    /// The deployment was its destroy run, and it succeeded: the environment is removed.
    Remove,
}

impl Environment {
    /// The environment after the end of `deployment`.
    pub fn after_end(&self, deployment: &Deployment) -> AfterEnd {
        let mut after = self.clone();
        let next = after.queue.leave(deployment.id);
        let left = left_by(deployment);
        // What it has read of the state while it had the turn was recorded then: others may have changed the state since.
        let is_recorded = deployment.releases_turn() && self.queue.current != Some(deployment.id);
        if deployment.mode.takes_turn()
            && !is_recorded
            && let Some(module) = after.module_of_mut(deployment)
        {
            module.record_end(deployment, left);
        }
        after.resources.record_end(deployment);
        after.record_drift(deployment);
        let succeeded = deployment.status == Status::Succeeded;
        let stops_removal =
            deployment.of_removal && !succeeded && self.status == EnvironmentStatus::Deleting;
        if self.removed_by == Some(deployment.id) || stops_removal {
            let is_known = after.module.unfinished().is_none();
            let is_empty = left == 0 && is_known && after.resources.is_empty();
            if succeeded && is_empty && after.queue.is_idle() {
                return AfterEnd::Remove;
            }
            after.removed_by = None;
            after.status = EnvironmentStatus::DeleteFailed;
            after.status_message = Some(after.reason_not_removed(deployment, left));
        }
        let is_whole = deployment.deploys_whole() && deployment.resource().is_none();
        if is_whole && self.status == EnvironmentStatus::DeleteFailed {
            after.status = EnvironmentStatus::Active;
            after.status_message = None;
        }
        after.version += 1;
        AfterEnd::Stay(Box::new(after), next)
    }

    /// `deployment`, which waits for reviews, gives up the turn. Returns the environment after that, and the deployment that may
    /// start now.
    pub fn after_release(&self, deployment: &mut Deployment) -> (Self, Option<DeploymentId>) {
        let mut after = self.clone();
        let next = after.queue.step_aside(deployment.id);
        let left = left_by(deployment);
        if let Some(module) = after.module_of_mut(deployment) {
            module.record_end(deployment, left);
        }
        // Recorded; at its next launch it would be taken for what this deployment has left.
        deployment.state = None;
        after.version += 1;
        (after, next)
    }

    /// Canyon has read what the job of `deployment` left, after the deployment's end. Returns whether the environment changes.
    pub fn salvaged(&mut self, deployment: &Deployment) -> bool {
        let changes =
            self.module_of_mut(deployment).is_some_and(|module| module.salvaged(deployment));
        if changes {
            self.version += 1;
        }
        changes
    }

    fn reason_not_removed(&self, deployment: &Deployment, left: u32) -> String {
        let module = self.module_of(deployment);
        let state = module.and_then(|module| module.state.as_ref());
        let place = state.map(|state| state_location(&state.storage, deployment.state_id()));
        if deployment.status == Status::Succeeded
            && left == 0
            && let Some(unfinished) = module.and_then(ModuleRecord::unfinished)
        {
            return format!(
                "the destroy run {} has destroyed all that the state lists, but the deployment {unfinished} did \
                 not report everything that it left: check its log and its orphans, remove what is left, and delete the \
                 environment with `canyon delete environment {} {} --force`. A later deployment that succeeds \
                 ends that doubt, too",
                deployment.id, self.project_id, self.id
            );
        }
        match place.filter(|_| deployment.status == Status::Succeeded && left > 0) {
            Some(place) => format!(
                "the destroy run {} succeeded, but its state at `{place}` still has {}: remove what \
                 is left, or leave it behind with `canyon delete environment {} {} --force`",
                deployment.id,
                Resources(left),
                self.project_id,
                self.id
            ),
            None => format!(
                "the destroy run {} of {} ended as {}: {}{}",
                deployment.id,
                deployment.destroyed(),
                deployment.status,
                deployment.message,
                self.resources_left()
            ),
        }
    }
}

/// The number of resources in the state at the end of `deployment`. Runner images of earlier versions report
/// no state; for them the reported counts are used.
fn left_by(deployment: &Deployment) -> u32 {
    match (&deployment.state, &deployment.counts) {
        (Some(report), _) => report.facts.resources,
        (None, Some(counts)) => counts.total.unwrap_or_default(),
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::{Approval, ApprovalNeed, ApprovalRule, TurnHold};
    use crate::deployment::ResourceCounts;
    use crate::environment_state::{Doubt, EnvironmentState};
    use crate::state_facts::StateFacts;
    use serde_json::{Value, json};
    use uuid::Uuid;

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
        environment.record_launch(deployment);
        // A second attempt is launched too.
        environment.record_launch(deployment);
        let AfterEnd::Stay(after, _) = environment.after_end(deployment) else {
            panic!("it is not being deleted");
        };
        *environment = *after;
        environment.module.applied.map(|id| id.0.as_u128())
    }

    #[test]
    fn a_destroy_undoes_the_last_deployment_that_began_to_apply() {
        let mut environment = environment();
        for (number, mode, status, phase, applied) in [
            (1, "deploy", "failed", "plan", None),
            (2, "deploy", "succeeded", "apply", Some(2)),
            (3, "deploy", "failed", "init", Some(2)),
            (4, "deploy", "cancelled", "plan", Some(2)),
            // Nothing had to be changed, so the module describes the same resources.
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

    #[test]
    fn a_command_on_the_state_is_no_deployment_of_the_environment() {
        let mut environment = environment();
        run(&mut environment, &deployment(1, "deploy", "succeeded", "apply"));
        environment.status = EnvironmentStatus::DeleteFailed;
        let applied = run(&mut environment, &deployment(2, "state", "succeeded", "apply"));
        let success = environment.module.last_success.map(|id| id.0.as_u128());
        assert_eq!((applied, success), (Some(1), Some(1)));
        assert_eq!(environment.status, EnvironmentStatus::DeleteFailed, "it destroys nothing");
    }

    #[test]
    fn a_destroy_run_of_a_part_keeps_the_module_unless_it_has_seen_that_nothing_is_left() {
        let destroyed = |seen: Option<u32>| {
            let mut environment = with_state(None, Some(3));
            let mut deployment = deployment(2, "destroy", "succeeded", "apply");
            deployment.partial = true;
            deployment.counts = Some(ResourceCounts::default());
            deployment.state = seen.map(|resources| {
                serde_json::from_value(
                    json!({ "lineage": "l", "serial": 2, "resources": resources }),
                )
                .unwrap()
            });
            run(&mut environment, &deployment)
        };
        assert_eq!(destroyed(Some(1)), Some(1));
        assert_eq!(destroyed(None), Some(1));
        assert_eq!(destroyed(Some(0)), None);
    }

    fn with_state(doubt: Option<Doubt>, resources: Option<u32>) -> Environment {
        let storage = json!({ "type": "local", "path": "/srv/state" });
        let state = EnvironmentState::in_storage(serde_json::from_value(storage).unwrap());
        let facts = resources.map(|resources| {
            let lineage = "l".to_owned();
            StateFacts { lineage, serial: 1, resources, digest: None }
        });
        let state = Some(EnvironmentState { facts, doubt, ..state });
        let applied = Some(DeploymentId(Uuid::from_u128(1)));
        let module = ModuleRecord { applied, state, ..ModuleRecord::default() };
        Environment { module, ..environment() }
    }

    #[test]
    fn what_a_plan_has_read_before_it_gave_up_the_turn_is_older_than_what_others_have_left() {
        let read = |serial: u64| {
            let report = json!({ "lineage": "l", "serial": serial, "resources": 1 });
            Some(serde_json::from_value(report).unwrap())
        };
        let serial = |of: &Environment| {
            of.module
                .state
                .as_ref()
                .and_then(|state| state.facts.as_ref())
                .map(|facts| facts.serial)
        };
        let rule = ApprovalRule {
            hold: Some(TurnHold::Release),
            ..ApprovalRule::of(ApprovalNeed::Always)
        };
        let mut environment = with_state(None, Some(1));
        let mut waiting = deployment(2, "deploy", "running", "plan");
        waiting.approval = Approval::by_rules(&[&rule]).map(Box::new);
        waiting.state = read(2);
        environment.queue.join(waiting.id).unwrap();
        environment.queue.take(waiting.id).unwrap();
        environment.record_launch(&waiting);
        let (mut environment, next) = environment.after_release(&mut waiting);
        assert_eq!((next, environment.queue.head(), serial(&environment)), (None, None, Some(2)));
        assert!(!environment.queue.is_idle(), "it is not deleted meanwhile");
        assert_eq!(environment.module.applied.map(|id| id.0.as_u128()), Some(1), "not this one");

        let mut other = deployment(3, "deploy", "succeeded", "apply");
        other.state = read(7);
        assert_eq!(run(&mut environment, &other), Some(3));
        waiting.status = Status::Cancelled;
        let AfterEnd::Stay(after, _) = environment.after_end(&waiting) else { panic!("it stays") };
        assert_eq!(serial(&after), Some(7));
        assert_eq!(after.module.applied.map(|id| id.0.as_u128()), Some(3));
    }

    #[test]
    fn a_destroy_that_shows_nothing_of_a_known_state_is_repeated() {
        let destroy = deployment(2, "destroy", "succeeded", "plan");
        let counts = Some(ResourceCounts { total: None, added: 0, changed: 0, removed: 3 });
        let counted = Deployment { counts, ..destroy.clone() };
        let report = json!({ "lineage": "l", "serial": 2, "resources": 0 });
        let state = Some(serde_json::from_value(report).unwrap());
        let reported = Deployment { state, ..destroy.clone() };
        for (run_of, resources, applied) in [
            (&destroy, Some(3), Some(1)),
            (&counted, Some(3), None),
            (&reported, Some(3), None),
            (&destroy, Some(0), None),
            (&destroy, None, None),
        ] {
            let mut environment = with_state(None, resources);
            environment.module.applied_before = environment.module.applied;
            let found = run(&mut environment, run_of);
            assert_eq!((found, environment.version), (applied, 2), "{run_of:?}, {resources:?}");
        }
    }

    #[test]
    fn a_destroy_that_succeeds_ends_the_doubt_about_an_unrecorded_state_alone() {
        let destroy = deployment(2, "destroy", "succeeded", "plan");
        let unfinished = Doubt::Unfinished(DeploymentId(Uuid::from_u128(1)));
        for (doubt, after) in [(Doubt::Unrecorded, None), (unfinished, Some(unfinished))] {
            let mut environment = with_state(Some(doubt), None);
            run(&mut environment, &destroy);
            assert_eq!(environment.module.state.unwrap().doubt, after);
        }
    }

    #[test]
    fn an_environment_whose_removal_failed_is_active_again_after_a_run_that_succeeds() {
        for (status, plan_only, after) in [
            ("succeeded", false, EnvironmentStatus::Active),
            ("succeeded", true, EnvironmentStatus::DeleteFailed),
            ("failed", false, EnvironmentStatus::DeleteFailed),
        ] {
            let (message, status_after) = (Some("why".to_owned()), EnvironmentStatus::DeleteFailed);
            let mut environment =
                Environment { status: status_after, status_message: message, ..environment() };
            let deployment = Deployment { plan_only, ..deployment(1, "deploy", status, "apply") };
            run(&mut environment, &deployment);
            let is_active = after == EnvironmentStatus::Active;
            assert_eq!(environment.status, after, "{status}, {plan_only}");
            assert_eq!(environment.status_message.is_none(), is_active);
        }
    }

    #[test]
    fn what_is_read_after_an_end_changes_an_environment_only_while_that_run_is_in_doubt() {
        let in_doubt = |number| {
            let doubt = Doubt::Unfinished(DeploymentId(Uuid::from_u128(number)));
            with_state(Some(doubt), None)
        };
        let run = |mode| {
            let mut run = deployment(1, mode, "failed", "apply");
            run.could_not_write_state(1, None);
            run
        };
        let mut environment = in_doubt(1);
        let mut unwritten = run("deploy");
        assert!(environment.salvaged(&unwritten));
        let by = environment
            .module
            .state
            .as_ref()
            .and_then(|state| state.unwritten.as_ref())
            .map(|of| of.by);
        assert_eq!((by, environment.version), (Some(unwritten.id), 2));
        assert!(!environment.salvaged(&unwritten), "it is known");
        // Its runner had pushed the state afterwards.
        unwritten.wrote_state(1);
        assert!(environment.salvaged(&unwritten));
        assert_eq!(environment.module.state.as_ref().unwrap().unwritten, None);
        assert!(!in_doubt(2).salvaged(&run("deploy")), "another run is in doubt");
        assert!(!in_doubt(1).salvaged(&run("destroy")), "it creates nothing");
    }
}
