//! The rights of a caller for one object.

use super::App;
use crate::app::error::AppError;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::scoped_role::Target;
use canyon_store::StoreError;
use canyon_store::deployment_search::DeploymentSearch;
use canyon_store::page::{Page, PageRequest};
use std::borrow::Borrow;

/// The most pages that one request reads to find an item that its caller may read.
const MAX_READS: u32 = 5;

/// Passes if `by` has the role `needed` for all of `target`. If `by` may not even read it, returns `hidden`, so that it
/// looks as if it did not exist.
pub(crate) fn require(
    by: &Principal,
    needed: Role,
    target: Target<'_>,
    hidden: impl FnOnce() -> AppError,
) -> Result<(), AppError> {
    let role = by.role_in(target);
    if role >= needed {
        return Ok(());
    }
    let is_seen = match target {
        Target::Organization => true,
        Target::Project(project) | Target::NewEnvironment { project, .. } => {
            by.sees_project(project)
        }
        Target::Environment { .. } => role >= Role::Viewer,
    };
    Err(if is_seen { forbidden(needed, role, target) } else { hidden() })
}

/// The refusal for an insufficient role.
pub(crate) fn forbidden(needed: Role, found: Role, target: Target<'_>) -> AppError {
    let (needed, found) = (needed.as_str(), found.as_str());
    let message =
        format!("this needs the role `{needed}` in {target}, and your token has `{found}` there");
    AppError::denied(message)
}

/// A deployment that was read, if it exists and `by` has the role `needed` for it.
pub(crate) fn of_caller<D: Borrow<Deployment>>(
    by: &Principal,
    needed: Role,
    id: DeploymentId,
    found: Option<D>,
) -> Result<D, AppError> {
    let missing = || AppError::not_found("deployment", id);
    let found = found.ok_or_else(missing)?;
    require(by, needed, found.borrow().into(), missing)?;
    Ok(found)
}

impl App {
    /// An environment, if it exists and `by` may read it.
    pub(crate) async fn readable_environment(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<Option<Environment>, AppError> {
        let found = self.table.environment(by.org, project, env).await?;
        Ok(found.filter(|found| by.role_in(found.into()) >= Role::Viewer))
    }

    /// A deployment that `by` may read.
    pub(crate) async fn readable_deployment(
        &self,
        by: &Principal,
        id: DeploymentId,
    ) -> Result<Deployment, AppError> {
        let found = self.table.deployment(by.org, id).await?;
        of_caller(by, Role::Viewer, id, found)
    }

    /// A page of the deployments that `by` may read. Pages without any are skipped, but only [`MAX_READS`] of them:
    /// then the answer is empty and has the cursor of the next page.
    pub(crate) async fn readable_deployments(
        &self,
        by: &Principal,
        mut search: DeploymentSearch,
        mut request: PageRequest,
    ) -> Result<Page<Deployment>, StoreError> {
        if search.may_use_ends() {
            let organization = self.table.organization(by.org).await?;
            search.lists_ends = organization.is_some_and(|found| found.lists_ends);
        }
        let mut reads = 0;
        loop {
            reads += 1;
            let mut page = self.table.search_deployments(by.org, &search, &request).await?;
            page.keep(|found| by.role_in(found.into()) >= Role::Viewer);
            if !page.items.is_empty() || page.next.is_none() || reads == MAX_READS {
                return Ok(page);
            }
            request.after = page.next;
        }
    }
}
