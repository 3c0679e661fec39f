//! The job of a resource: from its request, from its definition, or from the deployment that has created the resource.

use super::App;
use super::container_jobs::ResourceRequest;
use super::defined_resources::DefinedJob;
use super::deploy::DeploymentRequest;
use super::job_inputs::SealedInputs;
use super::modules::as_fetched;
use super::variable_sets::missing_store;
use crate::app::error::AppError;
use canyon_domain::container::ContainerTask;
use canyon_domain::defined_place::DefinedPlace;
use canyon_domain::definition::module_job::DefinedModule;
use canyon_domain::definition::resolution::ResourceJob;
use canyon_domain::deployment::Mode;
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::job::{Bundle, Module};
use canyon_domain::kind::Kind;
use canyon_domain::module_task::ModuleTask;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::resource::ResourceRefusal;
use canyon_domain::resource_name::ResourceName;

/// Where the job of a new deployment for a resource is from.
pub(super) enum ResourceSource {
    /// Its request, or a resource definition; with the sealed values of its secrets.
    Container { task: Box<ContainerTask>, sealed_inputs: SealedInputs, place: Option<DefinedPlace> },
    /// A resource definition.
    Module {
        module: Box<Module>,
        task: Box<ModuleTask>,
        sealed_inputs: SealedInputs,
        place: Option<DefinedPlace>,
    },
    /// The deployment that has created its resource.
    Deployment { bundle: Box<Bundle>, place: Option<Box<DefinedPlace>> },
}

impl App {
    /// The job that a request for a resource asks for.
    pub(super) async fn requested_resource(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        wanted: &ResourceRequest,
        environment: &Environment,
    ) -> Result<ResourceSource, AppError> {
        let ResourceRequest { name, job, .. } = wanted;
        if let Some(job) = job {
            if job.keep_seconds() > 0 && by.role_in(environment.into()) < Role::Admin {
                return Err(AppError::denied(
                    "`container.keep_seconds` lets a container stay with its secrets; only an administrator may set it",
                ));
            }
            check_resource(environment, name, Kind::Container)?;
            let sealed_inputs = self.seal_inputs(by.org, &order.secret_inputs, environment).await?;
            let task = Box::new(ContainerTask::new(name.clone(), job.clone()));
            return Ok(ResourceSource::Container { task, sealed_inputs, place: None });
        }
        if repeats(order, environment, name) {
            return self.repeated_job(by, order, name, environment).await;
        }
        self.job_of_definition(by, order, wanted, environment).await
    }

    async fn job_of_definition(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        wanted: &ResourceRequest,
        environment: &Environment,
    ) -> Result<ResourceSource, AppError> {
        let ResourceRequest { name, params, .. } = wanted;
        let DefinedJob { job, checks, place } =
            self.defined_job(by, name, params, environment).await?;
        match job {
            ResourceJob::Container(mut job) => {
                check_resource(environment, name, Kind::Container)?;
                if order.plan_only {
                    // Only a container that exists can be checked.
                    return Err(nothing_created(environment, name, true));
                }
                let values = job.take_secret_values();
                let sealed_inputs = self.seal_inputs(by.org, &values, environment).await?;
                let task = ContainerTask { checks, ..ContainerTask::new(name.clone(), *job) };
                Ok(ResourceSource::Container { task: Box::new(task), sealed_inputs, place })
            }
            ResourceJob::Module(defined) => {
                check_resource(environment, name, Kind::Tofu)?;
                let DefinedModule { module, files, secret_values, references } = *defined;
                let sealed_inputs = self.seal_inputs(by.org, &secret_values, environment).await?;
                let task = ModuleTask { resource: name.clone(), files, references };
                let (module, task) = (Box::new(module), Box::new(task));
                Ok(ResourceSource::Module { module, task, sealed_inputs, place })
            }
        }
    }

    /// The job that has created the resource: a destroy and a check run it again.
    async fn repeated_job(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        name: &ResourceName,
        environment: &Environment,
    ) -> Result<ResourceSource, AppError> {
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
        let mut bundle = bundle.filter(|bundle| bundle.container.is_some() || bundle.resource.is_some()).ok_or_else(|| {
            AppError::conflict(format!(
                "the job of deployment {id}, which has created resource `{name}`, is no longer stored: give the `container` that \
                 destroys it"
            ))
        })?;
        match (&mut bundle.container, &former) {
            (Some(task), Some(former)) => task.repeat_image_of(former.fetched()),
            (None, Some(former)) => bundle.module = as_fetched(bundle.module, former)?,
            (_, None) => {}
        }
        let can_check = |task: &ContainerTask| task.job.check.is_some();
        if order.plan_only && !bundle.container.as_ref().is_some_and(can_check) {
            return Err(AppError::conflict(format!(
                "the job of deployment {id}, which has created resource `{name}`, has no `check`, so Canyon cannot tell whether the \
                 resource has changed: deploy it again with one, or give the `container` that checks it"
            )));
        }
        let place = former.and_then(|former| former.place);
        Ok(ResourceSource::Deployment { bundle: Box::new(bundle), place })
    }

    /// Refuses a module for a resource that the environment has no room for, or that nothing could run.
    pub(super) async fn check_module_task(
        &self,
        by: &Principal,
        task: &ModuleTask,
        module: &Module,
        environment: &Environment,
    ) -> Result<(), AppError> {
        check_resource(environment, &task.resource, Kind::Tofu)?;
        self.check_module(by, module, environment).await?;
        let stores = self.configurations_of(by.org, task.references.values()).await?;
        let missing = task.references.iter().find(|(_, one)| !stores.contains_key(&one.store));
        let Some((name, reference)) = missing else { return Ok(()) };
        let missing = missing_store(&reference.store);
        Err(AppError::conflict(format!("the variable `{name}` of its definition {missing}")))
    }

    /// The deployment whose job a request for a resource repeats.
    pub(super) fn repeated_for_resource(
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Option<DeploymentId> {
        let wanted = order.resource.as_ref().filter(|wanted| wanted.job.is_none())?;
        if !repeats(order, environment, &wanted.name) {
            return None;
        }
        environment.resources.get(&wanted.name)?.to_destroy()
    }
}

/// Whether a request without a job repeats the one that has created the resource: a destroy does, and a check, which needs the
/// program that the container job names for it. All others run what the definition says now.
fn repeats(order: &DeploymentRequest, environment: &Environment, name: &ResourceName) -> bool {
    let is_container = || {
        let found = environment.resources.get(name);
        found.is_some_and(|resource| resource.kind() == Kind::Container)
    };
    order.mode == Mode::Destroy || (order.plan_only && is_container())
}

/// Refuses a job of `kind` for which the environment has no room, or whose resource is of another kind.
pub(super) fn check_resource(
    environment: &Environment,
    name: &ResourceName,
    kind: Kind,
) -> Result<(), AppError> {
    let refused = |refusal: ResourceRefusal| AppError::conflict(refusal.to_string());
    environment.resources.check(name, kind).map_err(refused)
}

pub(super) fn nothing_created(
    environment: &Environment,
    name: &ResourceName,
    checks: bool,
) -> AppError {
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
