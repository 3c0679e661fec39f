//! The job of a resource, from the definitions of the organization.

use super::App;
use super::permissions::require;
use super::runners::stored_definition;
use crate::app::error::AppError;
use canyon_domain::account::Account;
use canyon_domain::defined_place::DefinedPlace;
use canyon_domain::definition::criterion::MatchTarget;
use canyon_domain::definition::matching::consider;
use canyon_domain::definition::placement::Placement;
use canyon_domain::definition::resolution::{
    Known, ResolveError, Resolved, ResourceJob, ResourceOutputs, resolve,
};
use canyon_domain::definition::{Definition, DefinitionId};
use canyon_domain::ids::{EnvId, ProjectId, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::kind::Kind;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::resource_name::ResourceName;
use canyon_store::blob_keys::BlobKey;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Why a resource gets its definition, and what would run for it.
pub(crate) struct Explained {
    /// Each definition of its type: whether the resource gets it, and why.
    pub(crate) considered: Vec<(DefinitionId, bool, String)>,
    /// Its job, or why none would run.
    pub(crate) job: Result<PlannedJob, String>,
}

/// What would run for a resource, and where.
pub(crate) struct PlannedJob {
    /// The image of a container job, or the source of a module.
    pub(crate) source: String,
    pub(crate) is_module: bool,
    pub(crate) runner: RunnerId,
    /// The cluster, if it is not that of the runner.
    pub(crate) cluster: Option<String>,
}

/// The job of a resource, by its definition.
pub(super) struct DefinedJob {
    pub(super) job: ResourceJob,
    /// See [`Resolved::checks`].
    pub(super) checks: bool,
    /// See [`Deployment::place`](canyon_domain::deployment::Deployment::place).
    pub(super) place: Option<DefinedPlace>,
}

impl App {
    /// The job that makes the resource `name`, by the definitions. Reads all of them, and the outputs that they refer to.
    pub(super) async fn defined_job(
        &self,
        by: &Principal,
        name: &ResourceName,
        params: &Map<String, Value>,
        environment: &Environment,
    ) -> Result<DefinedJob, AppError> {
        let definitions = self.open_definitions(by.org).await?;
        let resolved = self.resolve_with(by, name, params, environment, &definitions).await?;
        let resolved = resolved.map_err(|error| AppError::conflict(error.to_string()))?;
        let place = self.place_of(by, &resolved, environment).await?.map_err(AppError::conflict)?;
        let Resolved { job, checks, .. } = resolved;
        Ok(DefinedJob { job, checks, place })
    }

    /// Where the definition has its job run; `None` if that is simply at the runner of the environment. The inner error says why
    /// it cannot run there.
    async fn place_of(
        &self,
        by: &Principal,
        of: &Resolved,
        environment: &Environment,
    ) -> Result<Result<Option<DefinedPlace>, String>, AppError> {
        let wanted = &of.placement;
        let id = wanted.agent.as_ref().unwrap_or(&environment.runner_id);
        let refused = |reason: String| {
            let (definition, env) = (&of.definition, &environment.id);
            Ok(Err(format!(
                "resource definition `{definition}` does not fit runner `{id}` for environment `{env}`: {reason}"
            )))
        };
        let Some(runner) = self.table.runner(by.org, id).await? else {
            return match &wanted.agent {
                Some(_) => {
                    refused("there is no such runner, whose agent is to launch the job".to_owned())
                }
                // The launch reports it.
                None => Ok(Ok(None)),
            };
        };
        let runner = stored_definition(&runner)?;
        if wanted.agent.is_some() && !runner.may_have_agent() {
            let kind = runner.runner_type();
            return refused(format!(
                "its `agent_url` is for an agent of this runner, and no agent launches jobs of type `{kind}`"
            ));
        }
        let account = match self.account_of(by, wanted).await? {
            Ok(account) => account,
            Err(reason) => return refused(reason),
        };
        let credentials = account.as_ref().map(|account| &account.credentials);
        let place = wanted.place(&runner.configuration, credentials);
        let place =
            place.and_then(|place| place.beside(&runner).map_err(|faults| faults.to_string()));
        place.map_or_else(refused, |place| Ok(Ok(place)))
    }

    /// The account that reaches the cluster of a definition. The inner error says why there is none.
    async fn account_of(
        &self,
        by: &Principal,
        wanted: &Placement,
    ) -> Result<Result<Option<Account>, String>, AppError> {
        // An agent is in its cluster, and needs no account.
        let name = match wanted.account() {
            Err(reason) => return Ok(Err(reason)),
            Ok(Some(name)) if wanted.agent.is_none() => name,
            Ok(_) => return Ok(Ok(None)),
        };
        let found = self.table.account(by.org, &name).await?;
        Ok(found.map(Some).ok_or_else(|| {
            format!(
                "its `cluster.account` is `{name}`, and there is no such account; create it with: canyon create account {name}"
            )
        }))
    }

    /// Explains the resource `name`.
    pub(crate) async fn explain_resource(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
        name: &ResourceName,
    ) -> Result<Explained, AppError> {
        let absent = || AppError::not_found("environment", env);
        let environment = self.table.environment(by.org, project, env).await?.ok_or_else(absent)?;
        require(by, Role::Viewer, (&environment).into(), absent)?;
        let definitions = self.open_definitions(by.org).await?;
        let considered = consider(&definitions, name, target_of(&environment));
        let considered = considered
            .into_iter()
            .map(|one| (one.definition.id.clone(), one.is_chosen, one.reason))
            .collect();
        let none = Map::new();
        let resolved = self.resolve_with(by, name, &none, &environment, &definitions).await?;
        let job = match resolved {
            Err(error) => Err(error.to_string()),
            Ok(resolved) => {
                let place = self.place_of(by, &resolved, &environment).await?;
                let place = match place {
                    Ok(place) => {
                        let refusal =
                            self.refusal_of(by, name, &resolved, &environment, place.as_ref());
                        refusal.await?.map_or(Ok(place), Err)
                    }
                    Err(reason) => Err(reason),
                };
                place.map(|place| {
                    let cluster = place.as_ref().and_then(DefinedPlace::cluster_name);
                    let runner = place.and_then(|place| place.runner);
                    let runner = runner.unwrap_or(environment.runner_id);
                    let (source, is_module) = match resolved.job {
                        ResourceJob::Container(job) => (job.image, false),
                        ResourceJob::Module(defined) => (defined.module.source.to_string(), true),
                    };
                    PlannedJob { source, is_module, runner, cluster }
                })
            }
        };
        Ok(Explained { considered, job })
    }

    /// Why a deployment would be refused although its definition has a job and a place.
    async fn refusal_of(
        &self,
        by: &Principal,
        name: &ResourceName,
        of: &Resolved,
        environment: &Environment,
        place: Option<&DefinedPlace>,
    ) -> Result<Option<String>, AppError> {
        let ResourceJob::Container(job) = &of.job else {
            let checked = environment.resources.check(name, Kind::Tofu);
            return Ok(checked.err().map(|refusal| refusal.to_string()));
        };
        if let Err(refusal) = environment.resources.check(name, Kind::Container) {
            return Ok(Some(refusal.to_string()));
        }
        let refused = self.check_on_runner(by, job, environment, place).await;
        match refused {
            Ok(()) => Ok(None),
            Err(failure) if failure.is_failure() => Err(failure),
            Err(refusal) if refusal.fields().iter().next().is_some() => {
                Ok(Some(refusal.fields().to_string()))
            }
            Err(refusal) => Ok(Some(refusal.message().to_owned())),
        }
    }

    async fn resolve_with(
        &self,
        by: &Principal,
        name: &ResourceName,
        params: &Map<String, Value>,
        environment: &Environment,
        definitions: &[Definition],
    ) -> Result<Result<Resolved, ResolveError>, AppError> {
        let organization = self.table.organization(by.org).await?;
        let organization =
            organization.ok_or_else(|| AppError::conflict("the organization is gone"))?;
        let mut outputs = BTreeMap::new();
        loop {
            let known = Known {
                definitions,
                org: &organization.id,
                target: target_of(environment),
                environment: environment.uuid,
                outputs: &outputs,
            };
            match resolve(name, params, known) {
                Err(ResolveError::Unread(other)) => {
                    let read = self.outputs_of_resource(by, environment, &other).await?;
                    outputs.insert(other, read);
                }
                done => return Ok(done),
            }
        }
    }

    /// The outputs of a resource of the environment.
    async fn outputs_of_resource(
        &self,
        by: &Principal,
        environment: &Environment,
        name: &ResourceName,
    ) -> Result<ResourceOutputs, AppError> {
        let found = environment.resources.get(name).and_then(|resource| resource.last_success);
        let id = found.ok_or_else(|| {
            let Environment { project_id, id, .. } = environment;
            AppError::conflict(format!(
                "environment `{id}` has no resource `{name}` yet, to which a resource definition refers: deploy it first with \
                 `canyon deploy {project_id} {id} --resource {name}`"
            ))
        })?;
        let read: Option<BTreeMap<String, canyon_api::deployment::Output>> =
            self.artifact(by, id, BlobKey::outputs).await?;
        let open = read.unwrap_or_default().into_iter().filter_map(|(name, output)| {
            let value = serde_json::from_str(&output.value?.to_string()).ok()?;
            Some((name, value))
        });
        let open = open.collect();
        let secret = self.secret_outputs(by, id).await?.into_iter().filter_map(|(name, value)| {
            let value = serde_json::from_str(&value.expose().to_string()).ok()?;
            Some((name, value))
        });
        Ok(ResourceOutputs { open, secret: secret.collect() })
    }
}

fn target_of(environment: &Environment) -> MatchTarget<'_> {
    let Environment { env_type_id, project_id, id, .. } = environment;
    MatchTarget { env_type: env_type_id, project: project_id, env: id }
}
