//! What was deployed to an environment, and what runs there.

use super::App;
use crate::app::error::AppError;
use canyon_domain::blocking_lock::BlockingLock;
use canyon_domain::deployment::{Deployment, Mode, Status};
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::deployment_search::DeploymentSearch;
use canyon_store::page::PageRequest;

/// The deployments of an environment, at a glance.
pub(crate) struct AtAGlance {
    /// The newest.
    pub(crate) last: Option<Deployment>,
    /// The last that succeeded and was no plan.
    pub(crate) last_success: Option<Deployment>,
    /// What runs and waits.
    pub(crate) queue: DeploymentQueue,
}

impl AtAGlance {
    /// The lock that blocks the newest deployment. It is no news once the deployment has succeeded or the lock is broken.
    pub(crate) fn blocking_lock(&self) -> Option<&BlockingLock> {
        let last = self.last.as_ref().filter(|last| last.status != Status::Succeeded)?;
        last.attempts.last()?.lock.as_ref().filter(|lock| !lock.broken)
    }
}

impl App {
    /// The deployments of an environment that the caller may read. 3 requests to the table; one more if no success is
    /// recorded with the environment.
    pub(crate) async fn deployments_at_a_glance(
        &self,
        of: &Environment,
        org: OrgUuid,
    ) -> Result<AtAGlance, AppError> {
        let scope = DeploymentFilter::Environment(of.uuid);
        let newest = PageRequest { limit: 1, after: None };
        let last = async {
            let page = self.table.deployments(org, &scope, &newest).await?;
            Ok::<_, AppError>(page.items.into_iter().next())
        };
        let last_success = async {
            match of.module.last_success {
                Some(id) => Ok(self.table.deployment(org, id).await?),
                None => self.unrecorded_success(org, &scope).await,
            }
        };
        // Each is a large future of the SDK. Boxed, they do not enlarge this future.
        let (last, last_success) = tokio::try_join!(Box::pin(last), Box::pin(last_success))?;
        Ok(AtAGlance { last, last_success, queue: of.queue.clone() })
    }

    /// The last success that an earlier version did not record, among the newest deployments.
    async fn unrecorded_success(
        &self,
        org: OrgUuid,
        scope: &DeploymentFilter,
    ) -> Result<Option<Deployment>, AppError> {
        let status = Some(Status::Succeeded);
        let search = DeploymentSearch { status, ..DeploymentSearch::of(scope.clone()) };
        let request = PageRequest { limit: 100, after: None };
        let page = self.table.search_deployments(org, &search, &request).await?;
        let deploys = |of: &Deployment| of.changes_state() && of.mode != Mode::State;
        Ok(page.items.into_iter().find(deploys))
    }
}
