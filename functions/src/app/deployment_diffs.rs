//! What a deployment runs differently from another of its environment, or would.

use super::App;
use super::deploy::DeploymentRequest;
use super::modules::Work;
use crate::app::error::AppError;
use canyon_domain::deployment::{Deployment, Mode, Status};
use canyon_domain::deployment_diff::{Difference, Node, between};
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::job::Bundle;
use canyon_domain::principal::Principal;
use canyon_domain::resource_name::ResourceName;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::page::{Cursor, PageRequest};

/// How many pages of earlier deployments are searched for the one before.
const MAX_PAGES: u32 = 10;
const FROM: &str = "fromDeploymentId";

/// The differences between two deployments.
#[derive(Debug, Default)]
pub(crate) struct Diff {
    /// What was there before.
    pub(crate) from: Option<DeploymentId>,
    /// What is compared with it; `None` for a request.
    pub(crate) to: Option<DeploymentId>,
    /// The differences.
    pub(crate) changes: Vec<Difference>,
}

impl App {
    /// The differences from the deployment `from`, or from the last one before `to` that has changed the same thing, to `to`.
    ///
    /// # Errors
    ///
    /// 400 when `from` is in another environment or for another resource; 404 when one does not exist; 409 when its request is no
    /// longer stored.
    pub(crate) async fn deployment_diff(
        &self,
        by: &Principal,
        to: DeploymentId,
        from: Option<DeploymentId>,
    ) -> Result<Diff, AppError> {
        let to = self.readable_deployment(by, to).await?;
        if to.mode == Mode::State {
            return Err(AppError::conflict(format!(
                "deployment {} is a command on the state, which runs no module",
                to.id
            )));
        }
        let from = match from {
            Some(id) => Some(self.named_before(by, id, &to).await?),
            None => self.before(by, &to).await?,
        };
        let bundle = self.stored_bundle(by, &to).await?;
        let earlier = match &from {
            Some(from) => Some(self.stored_bundle(by, from).await?),
            None => None,
        };
        let before = from.as_ref().zip(earlier.as_ref()).map(|(of, bundle)| node(of, bundle));
        let changes = between(before, node(&to, &bundle));
        Ok(Diff { from: from.map(|from| from.id), to: Some(to.id), changes })
    }

    /// The differences that a request would make.
    pub(super) async fn diff_of_request(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        work: &Work,
        environment: &Environment,
    ) -> Result<Diff, AppError> {
        if order.mode == Mode::State {
            return Ok(Diff::default());
        }
        let bundle = &work.bundle;
        let of_job = bundle.container.as_ref().map(|task| &task.resource);
        let resource = of_job.or(bundle.resource.as_ref().map(|task| &task.resource));
        let last = match resource {
            Some(name) => last_of(environment, name),
            None => environment.module.applied,
        };
        let before = match last {
            Some(id) => self.table.deployment(by.org, id).await?,
            None => None,
        };
        let earlier = match &before {
            Some(of) => self.table.bundle(by.org, of.id).await?,
            None => None,
        };
        let from = before.as_ref().zip(earlier.as_ref()).map(|(of, bundle)| node(of, bundle));
        let to = Node { bundle, fetched: None, destroys: order.mode == Mode::Destroy };
        Ok(Diff { from: before.as_ref().map(|of| of.id), to: None, changes: between(from, to) })
    }

    async fn named_before(
        &self,
        by: &Principal,
        id: DeploymentId,
        to: &Deployment,
    ) -> Result<Deployment, AppError> {
        let from = self.readable_deployment(by, id).await?;
        if from.env_uuid != to.env_uuid {
            return Err(AppError::invalid(FROM, "is of another environment"));
        }
        if from.resource() != to.resource() || from.mode == Mode::State {
            return Err(AppError::invalid(FROM, "is for something else in this environment"));
        }
        Ok(from)
    }

    /// The last deployment before `to` that has changed the same thing.
    async fn before(
        &self,
        by: &Principal,
        to: &Deployment,
    ) -> Result<Option<Deployment>, AppError> {
        let filter = DeploymentFilter::Environment(to.env_uuid);
        let mut request = PageRequest { limit: 100, after: Some(Cursor::after(to.id.to_string())) };
        for _ in 0..MAX_PAGES {
            let page = self.table.deployments(by.org, &filter, &request).await?;
            let changed = |of: &Deployment| {
                of.status == Status::Succeeded
                    && !of.plan_only
                    && of.mode != Mode::State
                    && of.resource() == to.resource()
            };
            if let Some(found) = page.items.into_iter().find(changed) {
                return Ok(Some(found));
            }
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        Ok(None)
    }

    async fn stored_bundle(&self, by: &Principal, of: &Deployment) -> Result<Bundle, AppError> {
        let gone = || {
            AppError::conflict(format!("the request of deployment {} is no longer stored", of.id))
        };
        self.bundle_of(by, of).await?.ok_or_else(gone)
    }
}

fn last_of(environment: &Environment, name: &ResourceName) -> Option<DeploymentId> {
    environment.resources.get(name)?.to_destroy()
}

fn node<'a>(of: &'a Deployment, bundle: &'a Bundle) -> Node<'a> {
    let fetched = of.fetched().and_then(|fetched| fetched.commit.as_ref());
    Node { bundle, fetched, destroys: of.mode == Mode::Destroy }
}
