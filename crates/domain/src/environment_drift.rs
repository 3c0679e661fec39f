//! When a check for drift may begin in an environment, and what the ends of deployments say about its drift.

use crate::deployment::{Deployment, Mode, Status};
use crate::drift::{DriftFinding, DriftNews, DriftRecord, DriftStatus, NoCheck};
use crate::ids::DeploymentId;
use crate::inventory::Environment;

impl DriftRecord {
    /// Records the end of `check`, unless a deployment has come first.
    fn record_check(&mut self, check: &Deployment) {
        if self.checking != Some(check.id) {
            return;
        }
        self.checking = None;
        let at = check.completed_at;
        match (check.status, check.drift.as_deref()) {
            (Status::Succeeded, Some(found)) => {
                let is_drifted = found.num_drifted > 0;
                let status = if is_drifted { DriftStatus::Drifted } else { DriftStatus::InSync };
                self.becomes(status, at);
                (self.checked_at, self.check) = (at, Some(check.id));
                self.found = found.clone();
            }
            (Status::Failed, _) => self.becomes(DriftStatus::Failed, at),
            _ => {}
        }
    }

    /// Records the end of a deployment that could change the module of the environment.
    fn record_deployment(&mut self, deployment: &Deployment) {
        let at = deployment.completed_at;
        let whole = deployment.deploys_whole() && !deployment.partial;
        if whole && deployment.mode.creates() {
            self.becomes(DriftStatus::InSync, at);
            let of_state = deployment.state.as_ref().map(|report| report.facts.resources);
            let num_resources = of_state.unwrap_or(self.found.num_resources);
            self.found = DriftFinding { num_resources, ..DriftFinding::default() };
        } else if deployment.began_to_apply() || deployment.deploys_whole() {
            self.becomes(DriftStatus::Unknown, at);
        }
    }
}

impl Environment {
    /// Whether a check may begin: `check` itself, or a new one.
    ///
    /// # Errors
    ///
    /// [`NoCheck`].
    pub fn may_check(&self, check: Option<DeploymentId>) -> Result<(), NoCheck> {
        let open = self.drift.as_ref().and_then(|drift| drift.checking);
        if let Some(open) = open.filter(|open| Some(*open) != check) {
            return Err(NoCheck::Checking(open));
        }
        self.queue.head().map_or(Ok(()), |head| Err(NoCheck::Busy(head)))
    }

    /// Records a check that was accepted.
    pub fn begin_check(&mut self, check: DeploymentId) {
        self.drift.get_or_insert_default().checking = Some(check);
    }

    /// Forgets the open check, if there is one, because a deployment comes first. Its result counts for nothing.
    pub fn overtake_check(&mut self) -> Option<DeploymentId> {
        self.drift.as_mut()?.checking.take()
    }

    /// What the end of `deployment` says about drift. An environment that was never checked has no record.
    pub(crate) fn record_drift(&mut self, deployment: &Deployment) {
        let Some(drift) = &mut self.drift else { return };
        if deployment.mode == Mode::Drift {
            drift.record_check(deployment);
        } else if deployment.resource().is_none() && deployment.changes_state() {
            drift.record_deployment(deployment);
        }
    }

    /// What is new in `self`, compared with the environment `before` the same end of a deployment.
    pub fn drift_news(&self, before: &Self) -> Option<DriftNews> {
        let addresses = |of: &Self| of.drift.as_ref()?.found.addresses.clone();
        let is_in_sync =
            || self.drift.as_ref().is_some_and(|drift| drift.status == DriftStatus::InSync);
        match (addresses(before), addresses(self)) {
            (old, Some(new)) if old.as_ref() != Some(&new) => Some(DriftNews::Detected),
            (Some(_), None) if is_in_sync() => Some(DriftNews::Resolved),
            _ => None,
        }
    }
}

impl Deployment {
    /// Records what its end has changed about the drift of its environment, so that an event reports it. The environment was
    /// `before`, and is now `after`.
    pub fn record_drift_news(&mut self, before: &Environment, after: &Environment) {
        let (Some(news), Some(known)) = (after.drift_news(before), &after.drift) else { return };
        self.drift = Some(Box::new(DriftFinding { news: Some(news), ..known.found.clone() }));
    }
}

#[cfg(test)]
#[path = "environment_drift_tests.rs"]
mod tests;
