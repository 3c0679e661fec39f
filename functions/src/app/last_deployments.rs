//! The last deployment of each environment.

use super::App;
use crate::app::error::AppError;
use canyon_domain::deployment::{Deployment, Mode};
use canyon_domain::ids::{EnvId, OrgUuid, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::principal::{Principal, Role};
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::page::{Page, PageRequest};

/// How many deployments of an environment each request reads. Nearly always the first request finds the one.
const STEPS: [u32; 3] = [1, 10, 89];

/// Which deployments to find.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastDeployments<'a> {
    /// Only environments of this project.
    pub(crate) project: Option<&'a ProjectId>,
    /// Only environments with this id.
    pub(crate) env: Option<&'a EnvId>,
    /// Only deployments that were to change something.
    pub(crate) state_change_only: bool,
}

impl App {
    /// The last deployments of a page of the environments that the caller may read; of environments without one, none. One
    /// request for the environments, and two for each of them.
    pub(crate) async fn last_deployments(
        &self,
        by: &Principal,
        wanted: LastDeployments<'_>,
        page: &PageRequest,
    ) -> Result<Page<Deployment>, AppError> {
        let is_wanted = |env: &Environment| {
            wanted.env.is_none_or(|id| *id == env.id) && by.role_in(env.into()) >= Role::Viewer
        };
        let Page { items: environments, next } =
            self.table.environments(by.org, wanted.project, page, is_wanted).await?;
        let mut items = Vec::new();
        for environment in &environments {
            let last = self.last_deployment(by.org, environment, wanted.state_change_only);
            // The future is large.
            items.extend(Box::pin(last).await?);
        }
        Ok(Page { items, next })
    }

    async fn last_deployment(
        &self,
        org: OrgUuid,
        of: &Environment,
        state_change_only: bool,
    ) -> Result<Option<Deployment>, AppError> {
        let scope = DeploymentFilter::Environment(of.uuid);
        let mut after = None;
        for limit in STEPS {
            let part = self.table.deployments(org, &scope, &PageRequest { limit, after }).await?;
            let mut items = part.items.into_iter();
            if let Some(found) = items.find(|one| !state_change_only || may_change(one)) {
                return Ok(Some(found));
            }
            after = part.next;
            if after.is_none() {
                return Ok(None);
            }
        }
        // After so many plans, the one that the environment's module records. Ids are in the order of time.
        match of.module.applied.max(of.module.last_success) {
            Some(id) => Ok(self.table.deployment(org, id).await?),
            None => Ok(None),
        }
    }
}

/// Whether a deployment was to apply or to destroy something, however it has ended.
fn may_change(deployment: &Deployment) -> bool {
    match deployment.mode {
        Mode::Deploy | Mode::Destroy | Mode::Rollback => !deployment.plan_only,
        Mode::State | Mode::Drift => false,
    }
}
