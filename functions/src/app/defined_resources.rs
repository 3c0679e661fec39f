//! The container job of a resource, from the definitions of the organization.

use super::App;
use super::permissions::require;
use super::runners::stored_definition;
use crate::app::error::AppError;
use canyon_domain::container::ContainerJob;
use canyon_domain::definition::criterion::MatchTarget;
use canyon_domain::definition::matching::consider;
use canyon_domain::definition::placement::mismatches;
use canyon_domain::definition::resolution::{Known, Outputs, ResolveError, Resolved, resolve};
use canyon_domain::definition::{Definition, DefinitionId};
use canyon_domain::ids::{EnvId, ProjectId, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::resource_name::ResourceName;
use canyon_store::blob_keys::BlobKey;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Why a resource gets its definition, and what would run for it.
pub(crate) struct Explained {
    /// Each definition of its type: whether the resource gets it, and why.
    pub(crate) considered: Vec<(DefinitionId, bool, String)>,
    /// The image and the runner of its job, or why none would run.
    pub(crate) job: Result<(String, RunnerId), String>,
}

impl App {
    /// The job that makes the resource `name`, by the definitions. Reads all of them, and the outputs that they refer to.
    pub(super) async fn defined_job(
        &self,
        by: &Principal,
        name: &ResourceName,
        params: &Map<String, Value>,
        environment: &Environment,
    ) -> Result<ContainerJob, AppError> {
        let definitions = self.open_definitions(by.org).await?;
        let resolved = self.resolve_with(by, name, params, environment, &definitions).await?;
        let resolved = resolved.map_err(|error| AppError::conflict(error.to_string()))?;
        match self.misplaced(by, &resolved, environment).await? {
            None => Ok(resolved.job),
            Some(reason) => Err(AppError::conflict(reason)),
        }
    }

    /// Why the runner of the environment is not where the definition wants its job to run, if it is not.
    async fn misplaced(
        &self,
        by: &Principal,
        of: &Resolved,
        environment: &Environment,
    ) -> Result<Option<String>, AppError> {
        let id = &environment.runner_id;
        let Some(runner) = self.table.runner(by.org, id).await? else { return Ok(None) };
        let found = mismatches(&of.placement, id, &stored_definition(&runner)?.configuration);
        let (definition, env) = (&of.definition, &environment.id);
        Ok((!found.is_empty()).then(|| {
            format!(
                "resource definition `{definition}` does not fit runner `{id}` of environment `{env}`: {}; link the environment to a \
                 runner that fits, with a runner rule, or change the definition",
                found.join("; ")
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
            Ok(resolved) => match self.misplaced(by, &resolved, &environment).await? {
                Some(reason) => Err(reason),
                None => Ok((resolved.job.image, environment.runner_id)),
            },
        };
        Ok(Explained { considered, job })
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

    /// The outputs of a resource of the environment that a container job has made. The values of secret ones are not kept.
    async fn outputs_of_resource(
        &self,
        by: &Principal,
        environment: &Environment,
        name: &ResourceName,
    ) -> Result<Outputs, AppError> {
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
        Ok(open.collect())
    }
}

fn target_of(environment: &Environment) -> MatchTarget<'_> {
    let Environment { env_type_id, project_id, id, .. } = environment;
    MatchTarget { env_type: env_type_id, project: project_id, env: id }
}
