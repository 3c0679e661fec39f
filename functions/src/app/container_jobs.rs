//! What a request wants of a resource, and whether the environment and its runner take a container job.

use super::App;
use super::deploy::DeploymentRequest;
use super::resource_jobs::{check_resource, nothing_created};
use super::runners::stored_definition;
use super::variable_sets::missing_store;
use crate::app::error::AppError;
use canyon_domain::container::{ContainerJob, ContainerTask};
use canyon_domain::defined_place::DefinedPlace;
use canyon_domain::deployment::Mode;
use canyon_domain::inventory::Environment;
use canyon_domain::kind::Kind;
use canyon_domain::principal::Principal;
use canyon_domain::resource_name::ResourceName;
use canyon_domain::runner::container_limits::ContainerRefusal;
use serde_json::{Map, Value};

/// What a request wants of a resource.
#[derive(Clone, Debug)]
pub struct ResourceRequest {
    /// The resource.
    pub name: ResourceName,
    /// The job to run. Without it, a deployment runs what the resource's definition says, and a destroy what has created it.
    pub job: Option<ContainerJob>,
    /// The inputs of the resource, for its definition.
    pub params: Map<String, Value>,
}

impl App {
    /// Refuses a container job that the environment has no room for, or that its runner cannot or may not run.
    pub(super) async fn check_container(
        &self,
        by: &Principal,
        task: &ContainerTask,
        order: &DeploymentRequest,
        environment: &Environment,
        place: Option<&DefinedPlace>,
    ) -> Result<(), AppError> {
        let ContainerTask { resource, job, .. } = task;
        let needs_resource = order.mode == Mode::Destroy || order.plan_only;
        if needs_resource && environment.resources.get(resource).is_none() {
            return Err(nothing_created(environment, resource, order.plan_only));
        }
        check_resource(environment, resource, Kind::Container)?;
        let references: Vec<_> = job.secret_references().collect();
        let stores = self.configurations_of(by.org, references.iter().map(|(_, one)| *one)).await?;
        let missing = references.iter().find(|(_, one)| !stores.contains_key(&one.store));
        if let Some((path, reference)) = missing {
            let reason = missing_store(&reference.store);
            return Err(AppError::invalid(format!("container.{path}"), reason));
        }
        self.check_on_runner(by, job, environment, place).await
    }

    /// Refuses a container job that the runner cannot or may not run.
    pub(super) async fn check_on_runner(
        &self,
        by: &Principal,
        job: &ContainerJob,
        environment: &Environment,
        place: Option<&DefinedPlace>,
    ) -> Result<(), AppError> {
        let other = place.and_then(|place| place.runner.as_ref());
        let runner = self.table.runner(by.org, other.unwrap_or(&environment.runner_id)).await?;
        let Some(runner) = runner else { return Ok(()) };
        let mut definition = stored_definition(&runner)?;
        if let Some(place) = place {
            // A fault that it has had since is reported by the launch.
            definition = place.applied_to(&definition).unwrap_or(definition);
        }
        let refusal = |refusal: ContainerRefusal| match &refusal {
            ContainerRefusal::Type { .. } => AppError::conflict(refusal.to_string()),
            ContainerRefusal::Image { .. } => {
                AppError::invalid("container.image", refusal.to_string())
            }
            ContainerRefusal::Grace { .. } => {
                AppError::invalid("container.grace_seconds", refusal.to_string())
            }
            ContainerRefusal::Size { field, reason, .. } => {
                AppError::invalid(format!("container.{field}"), reason.clone())
            }
        };
        let grace = job.grace_seconds();
        let size = job.size();
        definition.check_container(&runner.id, &job.image, grace, &size).map_err(refusal)?;
        if job.keep_seconds() > 0 && !definition.opens_containers() {
            let reason = format!(
                "has no effect on runner `{}`: on its platform, people cannot look into a container whose root file system is \
                 read-only",
                runner.id
            );
            return Err(AppError::invalid("container.keep_seconds", reason));
        }
        let allowed = definition.timeouts().run.as_secs();
        if job.timeout_seconds.is_some_and(|wanted| i64::from(wanted) > allowed) {
            let reason = format!(
                "is {}; a run on runner `{}` has at most {allowed} s (its `timeouts.run_seconds`)",
                job.timeout_seconds(),
                runner.id
            );
            return Err(AppError::invalid("container.timeout_seconds", reason));
        }
        Ok(())
    }
}
