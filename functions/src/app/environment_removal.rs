//! Requests the destroy runs that end with the deletion of an environment.

use super::App;
use super::container_jobs::ResourceRequest;
use super::deploy::DeploymentRequest;
use super::modules::Work;
use crate::app::error::AppError;
use canyon_domain::deployment::Mode;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::inventory::{Environment, EnvironmentStatus};
use canyon_domain::principal::Principal;
use canyon_domain::resource_name::ResourceName;
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployments::Accepted;
use serde_json::Map;

impl App {
    /// Requests a destroy run for each resource of an environment and for its module: the last of them ends with the deletion. A
    /// repeated request during the runs changes nothing.
    ///
    /// # Errors
    ///
    /// 404 when the environment does not exist; 409 when other deployments run or wait in it, or when there is no job or module to
    /// run. No run starts before the last one is accepted.
    pub(super) async fn request_destroy(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<Environment, AppError> {
        let found = self.table.environment(by.org, project, env).await?;
        let mut environment = found.ok_or_else(|| AppError::not_found("environment", env))?;
        if environment.status == EnvironmentStatus::Deleting {
            return Ok(environment);
        }
        if !environment.queue.is_idle() {
            return Err(AppError::conflict(format!(
                "deployments run or wait in environment `{env}`; wait for them or cancel them. List them: canyon list \
                 deployments --project {project} --env {env} --unended; cancel one: canyon cancel ID"
            )));
        }
        let mut steps = Vec::new();
        for resource in environment.removal_steps() {
            let order = destruction(project, env, resource);
            let work = self.work_for(by, &order, &environment).await?;
            steps.push((order, work));
        }
        if steps.is_empty() {
            // Its destroy run finds nothing, and says so.
            let order = destruction(project, env, None);
            let work = self.work_for(by, &order, &environment).await?;
            steps.push((order, work));
        }
        let last = steps.len() - 1;
        let as_read = environment.version;
        for (at, (order, work)) in steps.into_iter().enumerate() {
            let as_read = (at == 0).then_some(as_read);
            environment = self.accept_removal(by, &order, work, as_read, at == last).await?;
        }
        Ok(environment)
    }

    /// Accepts a run of the deletion: the first one begins it, if the environment is still `as_read`, and the last one lets it
    /// start.
    async fn accept_removal(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        work: Work,
        as_read: Option<u64>,
        is_last: bool,
    ) -> Result<Environment, AppError> {
        let DeploymentRequest { project, env, .. } = order;
        for _ in 0..MAX_TRIES {
            let found = self.table.environment(by.org, project, env).await?;
            let environment = found.ok_or_else(|| AppError::not_found("environment", env))?;
            let is_begun = environment.status == EnvironmentStatus::Deleting
                && environment.removed_by.is_none();
            if !as_read.map_or(is_begun, |version| version == environment.version) {
                return Err(AppError::contended(env));
            }
            let reads_in = self.reads_in(by, order, &environment).await?;
            let (mut deployment, mut environment) =
                self.enqueue(by, order, &work, reads_in, environment)?;
            deployment.of_removal = true;
            // Who deletes the environment was asked, and an approval would be refused while it is deleted.
            deployment.approval = None;
            environment.status = EnvironmentStatus::Deleting;
            environment.status_message = Some(format!("destroy run {}", deployment.id));
            environment.removed_by = is_last.then_some(deployment.id);
            environment.updated_at = deployment.created_at;
            let mut record =
                self.record(by, "environment.delete", format!("projects/{project}/envs/{env}"));
            let destroyed = deployment.destroyed();
            record.details.push(format!("destroy run {} of {destroyed}", deployment.id));
            let accepted = self
                .table
                .accept_deployment(by.org, &deployment, &work.bundle, &environment, None, &record)
                .await?;
            if accepted == Accepted::Yes {
                return Ok(environment);
            }
        }
        Err(AppError::contended(env))
    }
}

/// A request to destroy a resource, or the module.
fn destruction(
    project: &ProjectId,
    env: &EnvId,
    resource: Option<ResourceName>,
) -> DeploymentRequest {
    let resource = resource.map(|name| ResourceRequest { name, job: None, params: Map::new() });
    let destroy = DeploymentRequest::new(Mode::Destroy, project.clone(), env.clone());
    DeploymentRequest { resource, ..destroy }
}
