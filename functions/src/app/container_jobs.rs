//! The container job of a deployment: from its request, or from the deployment that has created its resource.

use super::App;
use super::defined_resources::DefinedJob;
use super::deploy::DeploymentRequest;
use super::job_inputs::SealedInputs;
use super::runners::stored_definition;
use super::variable_sets::missing_store;
use crate::app::error::AppError;
use canyon_domain::container::{ContainerJob, ContainerTask};
use canyon_domain::defined_place::DefinedPlace;
use canyon_domain::deployment::Mode;
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::job::Bundle;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::resource::MAX_RESOURCES;
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

/// Where the container job of a new deployment is from.
pub(super) enum ContainerSource {
    /// Its request, or a resource definition; with the sealed values of its secrets.
    Request { task: Box<ContainerTask>, sealed_inputs: SealedInputs, place: Option<DefinedPlace> },
    /// The deployment that has created its resource.
    Deployment { bundle: Box<Bundle>, place: Option<Box<DefinedPlace>> },
}

impl App {
    /// The container job that a request asks for.
    pub(super) async fn requested_container(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        wanted: &ResourceRequest,
        environment: &Environment,
    ) -> Result<ContainerSource, AppError> {
        let ResourceRequest { name, job, params } = wanted;
        if job.is_none() && order.runs_definition() {
            let DefinedJob { mut job, checks, place } =
                self.defined_job(by, name, params, environment).await?;
            let sealed_inputs =
                self.seal_inputs(by.org, &job.take_secret_values(), environment).await?;
            let task = Box::new(ContainerTask { checks, ..ContainerTask::new(name.clone(), job) });
            return Ok(ContainerSource::Request { task, sealed_inputs, place });
        }
        if let Some(job) = job {
            if job.keep_seconds() > 0 && by.role_in(environment.into()) < Role::Admin {
                return Err(AppError::denied(
                    "`container.keep_seconds` lets a container stay with its secrets; only an administrator may set it",
                ));
            }
            let sealed_inputs = self.seal_inputs(by.org, &order.secret_inputs, environment).await?;
            let task = Box::new(ContainerTask::new(name.clone(), job.clone()));
            return Ok(ContainerSource::Request { task, sealed_inputs, place: None });
        }
        let found = environment.resources.get(name);
        let found = found.ok_or_else(|| nothing_created(environment, name, order.plan_only))?;
        let id = found.to_destroy().ok_or_else(|| {
            AppError::conflict(format!(
                "no deployment for resource `{name}` has ended after its program began, so there is no job to run again: wait for \
                 the one that runs, or give the `container` that destroys the resource"
            ))
        })?;
        let (bundle, former) = tokio::try_join!(
            Box::pin(self.table.bundle(by.org, id)),
            Box::pin(self.table.deployment(by.org, id)),
        )?;
        let mut bundle = bundle.filter(|bundle| bundle.container.is_some()).ok_or_else(|| {
            AppError::conflict(format!(
                "the job of deployment {id}, which has created resource `{name}`, is no longer stored: give the `container` that \
                 destroys it"
            ))
        })?;
        if let (Some(task), Some(former)) = (&mut bundle.container, &former) {
            task.repeat_image_of(former.fetched());
        }
        let can_check = |task: &ContainerTask| task.job.check.is_some();
        if order.plan_only && !bundle.container.as_ref().is_some_and(can_check) {
            return Err(AppError::conflict(format!(
                "the job of deployment {id}, which has created resource `{name}`, has no `check`, so Canyon cannot tell whether the \
                 resource has changed: deploy it again with one, or give the `container` that checks it"
            )));
        }
        let place = former.and_then(|former| former.place);
        Ok(ContainerSource::Deployment { bundle: Box::new(bundle), place })
    }

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
        if !environment.resources.has_room_for(resource) {
            let id = &environment.id;
            return Err(AppError::conflict(format!(
                "environment `{id}` has {MAX_RESOURCES} resources, the most that one may have: destroy those that are not needed"
            )));
        }
        let references: Vec<_> = job.secret_references().collect();
        let stores = self.configurations_of(by.org, references.iter().map(|(_, one)| *one)).await?;
        let missing = references.iter().find(|(_, one)| !stores.contains_key(&one.store));
        if let Some((path, reference)) = missing {
            let reason = missing_store(&reference.store);
            return Err(AppError::invalid(format!("container.{path}"), reason));
        }
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
            ContainerRefusal::Size { field, .. } => {
                AppError::invalid(format!("container.{field}"), refusal.to_string())
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

    /// The deployment whose job a request for a resource repeats.
    pub(super) fn repeated_for_resource(
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Option<DeploymentId> {
        // A deployment without a job runs that of a definition.
        let repeats = |wanted: &&ResourceRequest| wanted.job.is_none() && !order.runs_definition();
        let wanted = order.resource.as_ref().filter(repeats)?;
        environment.resources.get(&wanted.name)?.to_destroy()
    }
}

fn nothing_created(environment: &Environment, name: &ResourceName, checks: bool) -> AppError {
    let action = if checks { "check" } else { "destroy" };
    let known: Vec<_> =
        environment.resources.iter().map(|resource| format!("`{}`", resource.name)).collect();
    let id = &environment.id;
    AppError::conflict(match known.as_slice() {
        [] => format!(
            "environment `{id}` has no resource `{name}`, so there is nothing to {action}; it has none at all"
        ),
        known => format!(
            "environment `{id}` has no resource `{name}`, so there is nothing to {action}; it has: {}",
            known.join(", ")
        ),
    })
}
