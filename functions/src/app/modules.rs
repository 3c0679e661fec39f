//! The module of a deployment: from its request, or from an earlier deployment.

use super::App;
use super::container_request;
use super::deploy::DeploymentRequest;
use super::job_inputs::SealedInputs;
use super::resource_jobs::ResourceSource;
use crate::app::error::AppError;
use canyon_api::archive::MAX_ARCHIVE_BYTES;
use canyon_domain::container::ContainerTask;
use canyon_domain::defined_place::DefinedPlace;
use canyon_domain::deployment::{Deployment, Mode, Status};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::job::{Bundle, Module};
use canyon_domain::module_source::{Digest, ModuleSource};
use canyon_domain::module_task::ModuleTask;
use canyon_domain::plan_options::PlanOptions;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::scoped_role::{ScopedRole, intersection};
use canyon_domain::state_command::StateCommand;
use canyon_store::blob_keys::BlobKey;

/// What a new deployment runs, and where.
pub(super) struct Work {
    pub(super) bundle: Bundle,
    /// See [`Deployment::place`].
    pub(super) place: Option<DefinedPlace>,
}

/// The module of a new deployment, with what goes with it.
struct ModuleToRun {
    module: Module,
    sealed_inputs: SealedInputs,
    /// The keys to which the deployment that ran it before encrypted its outputs, and its log.
    outputs_recipient: Option<String>,
    logs_recipient: Option<String>,
    /// The resource that the module makes.
    resource: Option<ModuleTask>,
    /// The container job, in place of the module.
    container: Option<ContainerTask>,
    place: Option<DefinedPlace>,
    /// The options of the plan that is to be applied.
    options: Option<PlanOptions>,
}

impl From<Module> for ModuleToRun {
    fn from(module: Module) -> Self {
        Self {
            module,
            sealed_inputs: SealedInputs::new(),
            outputs_recipient: None,
            logs_recipient: None,
            resource: None,
            container: None,
            place: None,
            options: None,
        }
    }
}

impl From<Bundle> for ModuleToRun {
    fn from(former: Bundle) -> Self {
        Self {
            sealed_inputs: former.sealed_inputs,
            outputs_recipient: former.encrypted_outputs_recipient,
            logs_recipient: former.encrypted_logs_recipient,
            resource: former.resource,
            container: former.container,
            ..Self::from(former.module)
        }
    }
}

impl From<ResourceSource> for ModuleToRun {
    fn from(source: ResourceSource) -> Self {
        match source {
            ResourceSource::Container { task, sealed_inputs, place } => {
                let container = Some(*task);
                Self { sealed_inputs, container, place, ..Self::from(Module::empty()) }
            }
            ResourceSource::Module { module, task, sealed_inputs, place } => {
                let resource = Some(*task);
                Self { sealed_inputs, resource, place, ..Self::from(*module) }
            }
            ResourceSource::Deployment { bundle, place } => {
                Self { place: place.map(|place| *place), ..Self::from(*bundle) }
            }
        }
    }
}

impl App {
    /// The request of a deployment that `by` may read. `None` if it is no longer stored.
    pub(crate) async fn bundle_of(
        &self,
        by: &Principal,
        of: &Deployment,
    ) -> Result<Option<Bundle>, AppError> {
        Ok(self.table.bundle(by.org, of.id).await?)
    }

    /// What the runner applies: the module or job of the request, or that of the deployment to repeat or destroy.
    pub(super) async fn work_for(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Result<Work, AppError> {
        let of = match (&order.resource, order.mode) {
            (Some(wanted), _) => {
                self.requested_resource(by, order, wanted, environment).await?.into()
            }
            (None, _) => self.module_to_run(by, order, environment).await?,
        };
        if let Some(task) = &of.container {
            container_request::check_repetition(order)?;
            self.check_container(by, task, order, environment, of.place.as_ref()).await?;
        }
        if let Some(task) = &of.resource {
            self.check_module_task(by, task, &of.module, environment).await?;
        }
        refuse_choices_elsewhere(order, of.place.as_ref())?;
        // A caller who encrypted a run does not expect its repetition in clear. A command on the state has outputs of its own.
        let repeats = order.mode != Mode::State;
        let former = |of: Option<String>| of.filter(|_| repeats);
        let outputs = order.encrypted_outputs_recipient.clone();
        let logs = order.encrypted_logs_recipient.clone();
        let bundle = Bundle {
            module: of.module,
            sealed_inputs: of.sealed_inputs,
            encrypted_outputs_recipient: outputs.or_else(|| former(of.outputs_recipient)),
            encrypted_logs_recipient: logs.or_else(|| former(of.logs_recipient)),
            log_level: order.log_level,
            options: of.options.unwrap_or_else(|| order.options.clone()),
            state_command: order.state_command.clone(),
            resource: of.resource,
            container: of.container,
        };
        Ok(Work { bundle, place: of.place })
    }

    async fn module_to_run(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Result<ModuleToRun, AppError> {
        if let Some(plan) = order.plan_of {
            return Box::pin(self.module_of_plan(by, plan, environment)).await;
        }
        Ok(match (&order.module, order.mode) {
            (Some(module), Mode::Deploy | Mode::Destroy | Mode::State | Mode::Drift) => {
                self.check_module(by, module, environment).await?;
                let sealed_inputs =
                    self.seal_inputs(by.org, &order.secret_inputs, environment).await?;
                ModuleToRun { sealed_inputs, ..ModuleToRun::from(module.clone()) }
            }
            (None, Mode::Deploy) => {
                return Err(AppError::invalid(
                    "module",
                    "give the module: its `source` is required",
                ));
            }
            (None, Mode::Destroy | Mode::Drift) => self
                .applied_module(by, environment)
                .await?
                .ok_or_else(|| nothing_deployed(environment))?,
            (None, Mode::State) => match self.applied_module(by, environment).await? {
                Some(applied) => applied,
                None if order.state_command.as_ref().is_some_and(StateCommand::needs_module) => {
                    let reason = format!(
                        "is required: nothing was deployed to environment `{}` yet, so no module declares the address",
                        environment.id
                    );
                    return Err(AppError::invalid("module", reason));
                }
                // OpenTofu finds in the state which providers it needs.
                None => Module::empty().into(),
            },
            (None, Mode::Rollback) => self.former_module(by, order, environment).await?,
            (Some(_), Mode::Rollback) => {
                return Err(AppError::invalid(
                    "module",
                    "a rollback takes the module of the deployment that it repeats",
                ));
            }
        })
    }

    /// Where the module may read, if not everywhere. It may read no more than the principal that requested the
    /// deployment. The module of an earlier deployment may also read no more than that deployment's requester: its
    /// author sees the log.
    pub(super) async fn reads_in(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Result<Option<Vec<ScopedRole>>, AppError> {
        let (role, scoped_roles) = by.as_reader();
        let own = Some(scoped_roles).filter(|_| role == Role::None);
        let of = match (order.mode, &order.module) {
            _ if order.resource.is_some() => Self::repeated_for_resource(order, environment),
            _ if order.plan_of.is_some() => order.plan_of,
            (Mode::Rollback, _) => order.rollback_to,
            (Mode::Deploy, _) | (_, Some(_)) => None,
            (_, None) => self.applied_deployment(by, environment).await?,
        };
        let Some(of) = of else { return Ok(own) };
        let authors = self.table.deployment(by.org, of).await?;
        Ok(intersection(own, authors.and_then(|authors| authors.reads_in)))
    }

    pub(super) async fn check_module(
        &self,
        by: &Principal,
        module: &Module,
        environment: &Environment,
    ) -> Result<(), AppError> {
        module.check().map_err(|e| AppError::invalid(format!("module.{}", e.field), e.reason))?;
        match &module.source {
            ModuleSource::Archive { digest, .. } => self.check_archive(by, digest).await?,
            ModuleSource::Git(git) if git.is_local() => {
                let runner = self.table.runner(by.org, &environment.runner_id).await?;
                if runner.is_none_or(|runner| runner.runner_type != "local") {
                    return Err(AppError::invalid(
                        "module.source",
                        "only a runner of type `local` can read a repository on its own machine",
                    ));
                }
            }
            ModuleSource::Git(_) | ModuleSource::Oci(_) | ModuleSource::Inline => {}
        }
        Ok(())
    }

    /// The deployment whose module the environment's state is of. While the newest one has not fetched its module, that is
    /// the one before: nothing shows yet that the newer module exists.
    async fn applied_deployment(
        &self,
        by: &Principal,
        environment: &Environment,
    ) -> Result<Option<DeploymentId>, AppError> {
        let (applied, before) = (environment.module.applied, environment.module.applied_before);
        let (Some(newest), Some(before)) = (applied, before) else { return Ok(applied) };
        let newest = self.table.deployment(by.org, newest).await?;
        let has_module =
            |newest: &Deployment| newest.fetched().is_some() || newest.began_to_apply();
        Ok(if newest.as_ref().is_some_and(has_module) { applied } else { Some(before) })
    }

    /// The module that the environment's state is of; `None` if nothing was deployed.
    async fn applied_module(
        &self,
        by: &Principal,
        environment: &Environment,
    ) -> Result<Option<ModuleToRun>, AppError> {
        let applied = self.applied_deployment(by, environment).await?;
        let Some(applied) = applied else { return Ok(None) };
        let Some(bundle) = self.table.bundle(by.org, applied).await? else { return Ok(None) };
        let mut of = ModuleToRun::from(bundle);
        if matches!(of.module.source, ModuleSource::Git(_) | ModuleSource::Oci(_))
            && let Some(applied) = self.table.deployment(by.org, applied).await?
        {
            of.module = as_fetched(of.module, &applied)?;
        }
        Ok(Some(of))
    }

    async fn former_module(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        environment: &Environment,
    ) -> Result<ModuleToRun, AppError> {
        const FIELD: &str = "rollback_to_deployment_id";
        let id = order
            .rollback_to
            .ok_or_else(|| AppError::invalid(FIELD, "give the deployment to repeat"))?;
        let former = self.table.deployment(by.org, id).await?;
        let former = former.filter(|former| former.env_uuid == environment.uuid);
        let former = former.ok_or_else(|| {
            AppError::invalid(
                FIELD,
                format!("is {id}, and environment `{}` has no such deployment", order.env),
            )
        })?;
        if former.status != Status::Succeeded || former.plan_only || !former.mode.creates() {
            return Err(AppError::invalid(
                FIELD,
                format!("is {id}, which has applied no module, so it cannot be repeated"),
            ));
        }
        if former.partial && !order.options.is_partial() {
            return Err(AppError::invalid(
                FIELD,
                format!(
                    "deployment {id} applied only its targets: repeated as a whole, its module would also change what that run \
                     left alone. Choose another deployment, or name targets"
                ),
            ));
        }
        let bundle = self.table.bundle(by.org, id).await?.ok_or_else(|| {
            AppError::conflict(format!("the module of deployment {id} is no longer stored"))
        })?;
        let mut of = ModuleToRun::from(bundle);
        match &mut of.container {
            Some(task) => task.repeat_image_of(former.fetched()),
            None => of.module = as_fetched(of.module, &former)?,
        }
        of.place = former.place.map(|place| *place);
        Ok(of)
    }

    /// That of a kept plan, as its run has fetched it.
    async fn module_of_plan(
        &self,
        by: &Principal,
        id: DeploymentId,
        environment: &Environment,
    ) -> Result<ModuleToRun, AppError> {
        let planned = self.planned(by, id, environment).await?;
        let bundle = self.table.bundle(by.org, id).await?.ok_or_else(|| {
            AppError::conflict(format!("the module of deployment {id} is no longer stored"))
        })?;
        let options = Some(bundle.options.clone());
        let mut of = ModuleToRun { options, ..ModuleToRun::from(bundle) };
        of.module = as_fetched(of.module, &planned)?;
        of.place = planned.place.map(|place| *place);
        Ok(of)
    }

    async fn check_archive(&self, by: &Principal, digest: &Digest) -> Result<(), AppError> {
        let refusal = |reason: String| Err(AppError::invalid("module.source", reason));
        match self.blobs.size(&BlobKey::archive(by.org, digest)).await? {
            None => refusal(format!("there is no archive sha256:{digest}; upload it first")),
            // In an earlier version of Canyon the signature of an upload URL covered the digest, and not the size.
            Some(size) if size > MAX_ARCHIVE_BYTES as u64 => {
                refusal(format!("the archive has {size} bytes; the limit is {MAX_ARCHIVE_BYTES}"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// The agent and the role of a request are of the environment's own runner, and an agent launches jobs only where it is.
fn refuse_choices_elsewhere(
    order: &DeploymentRequest,
    place: Option<&DefinedPlace>,
) -> Result<(), AppError> {
    let Some(place) = place else { return Ok(()) };
    let (runner, cluster) = (place.runner.as_ref(), place.cluster_name());
    let elsewhere = match (runner, &cluster) {
        (Some(runner), _) => format!("has the agent of runner `{runner}` launch the job"),
        (None, Some(cluster)) => format!("has the job run in `{cluster}`"),
        (None, None) => return Ok(()),
    };
    let chosen =
        [("agent", order.agent.is_some()), ("role", order.role.is_some() && runner.is_some())];
    let mut faults = FieldErrors::default();
    for (field, _) in chosen.into_iter().filter(|(_, is_given)| *is_given) {
        faults.add(field, format!("does not go with this resource: its definition {elsewhere}"));
    }
    Ok(faults.into_result(())?)
}

/// The refusal of a destroy run without a module. Resources that were only imported are in the state nevertheless.
fn nothing_deployed(environment: &Environment) -> AppError {
    let id = &environment.id;
    let facts = environment.module.state.as_ref().and_then(|state| state.facts.as_ref());
    let has_resources = facts.is_some_and(|facts| facts.resources > 0);
    AppError::conflict(if has_resources {
        format!(
            "nothing was deployed to environment `{id}`, and its state has resources: give the `module` that describes them"
        )
    } else if environment.module.last_success.is_some() {
        format!(
            "nothing is deployed to environment `{id}` any more, so there is nothing to destroy"
        )
    } else {
        format!("nothing was deployed to environment `{id}`, so there is nothing to destroy")
    })
}

/// The module of `former` at the commit that `former` has run: its branch may have moved since. A runner of an earlier
/// version has not reported the commit; then the reference stays.
pub(super) fn as_fetched(module: Module, former: &Deployment) -> Result<Module, AppError> {
    let commit = former.fetched().and_then(|fetched| fetched.commit.as_ref());
    let Some(commit) = commit else { return Ok(module) };
    let source = module.source.at_commit(commit).ok_or_else(|| {
        AppError::conflict(format!(
            "the source of deployment {} is too long to name the commit {commit}, which it has run; deploy that commit from a \
             shorter address",
            former.id
        ))
    })?;
    Ok(Module { source, ..module })
}
