//! The description of a job for the runner of an attempt.

use super::App;
use super::named_roles;
use super::runners::{stored_definition, unusable};
use crate::app::error::AppError;
use canyon_domain::attempt::Attempt;
use canyon_domain::backend::backend_file;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::job::{Bundle, Executable, Job, StateTask};
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::runner::local::Executable as Program;
use canyon_domain::runner::{RunnerConfiguration, RunnerDefinition};
use canyon_domain::secret_variables::SecretVariables;
use canyon_identity::bearer::AttemptRef;
use canyon_store::job_parts::JobParts;
use canyon_store::runners::RunnerRecord;
use serde_json::Value;

impl App {
    /// Where the job of an attempt runs: the place of the agent that has taken it, or the location in the runner's
    /// definition. A state may be stored there although the runner now keeps states elsewhere.
    pub(super) async fn place_of_job(
        &self,
        of: AttemptRef,
        deployment: &Deployment,
        runner: Option<&RunnerRecord>,
    ) -> Result<Option<String>, AppError> {
        let Some(runner) = runner else { return Ok(None) };
        let definition = stored_definition(runner)?;
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
        let launched_by_it = attempt.and_then(|at| at.runner_version) == Some(runner.version);
        let by_canyon = launched_by_it
            && !definition.needs_agent()
            && deployment.agent.is_none()
            && deployment.place.is_none();
        if !by_canyon {
            let job = self.table.agent_job(of.org, runner.uuid, of.deployment, of.number).await?;
            if let Some(taken) = job.and_then(|job| job.holder) {
                return Ok(Some(taken.platform_id));
            }
        }
        Ok(Some(definition.platform_identity().to_string()))
    }

    /// The environment and its unfinished run. A late reading writes both in one transaction: so the environment is read
    /// again after that run, and knows at least what the run says was read.
    async fn with_unfinished(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        environment: Environment,
    ) -> Result<(Environment, Option<Deployment>), AppError> {
        let unfinished_in = |environment: &Environment| {
            environment.module_of(deployment).and_then(ModuleRecord::unfinished)
        };
        let Some(id) = unfinished_in(&environment) else { return Ok((environment, None)) };
        let unfinished = self.table.deployment(org, id).await?;
        let (project, env) = (&environment.project_id, &environment.id);
        let again = self.table.environment(org, project, env).await?;
        let again = again.filter(|again| again.uuid == environment.uuid);
        match again {
            Some(again) if unfinished_in(&again) == Some(id) => Ok((again, unfinished)),
            Some(_) | None => Err(AppError::contended(&environment.id)),
        }
    }

    /// The job description for the runner of an attempt. The inner error says why the runner's definition, which was
    /// changed since the launch, cannot be used.
    pub(super) async fn job(
        &self,
        of: AttemptRef,
        deployment: &Deployment,
        parts: JobParts,
    ) -> Result<Result<Job, String>, AppError> {
        let gone = |what: &str| AppError::conflict(format!("{what} is gone"));
        let JobParts { bundle, runner, environment, variable_sets } = parts;
        let mut bundle: Bundle = bundle.ok_or_else(|| gone("the module of the deployment"))?;
        let runner = runner.ok_or_else(|| gone("the runner's definition"))?;
        let environment = environment.filter(|found| found.uuid == deployment.env_uuid);
        let environment = environment.ok_or_else(|| gone("the environment"))?;
        let definition = match stored_definition(&runner)?.usable() {
            Ok(definition) => definition,
            Err(faults) => return Ok(Err(unusable(&runner.id, &faults))),
        };
        let at = deployment.open_attempt().and_then(|open| open.claim.as_ref());
        let at = at.map_or_else(|| self.now(), |claim| claim.at);
        let env_type = &environment.env_type_id;
        let identity =
            match named_roles::identity_of(&runner, &definition, deployment, env_type, at) {
                Ok(identity) => identity,
                Err(reason) => return Ok(Err(reason)),
            };
        let attempt = deployment.attempts.last();
        let attempt: &Attempt = attempt.ok_or_else(|| gone("the attempt"))?;
        let (executable, variables) = local_settings(&definition);
        let (environment, unfinished) =
            self.with_unfinished(of.org, deployment, environment).await?;
        let storage = &definition.state_storage;
        let (backend, state) = if deployment.kind().facts().has_state {
            let (storage, state) =
                environment.state_for_job(deployment, storage, unfinished.as_ref());
            (backend_file(storage, deployment.state_id()), state)
        } else {
            (Value::Null, StateTask::default())
        };
        let sets = match variable_sets {
            Some(sets) => sets,
            None => self.sets_of(of.org, environment.on(&deployment.runner)).await?,
        };
        let mut kept = match Box::pin(self.kept_for_job(of.org, sets)).await? {
            Ok(kept) => kept,
            Err(reason) => return Ok(Err(reason)),
        };
        self.fill_in(of.org, deployment, &environment, &mut bundle, &mut kept.variables).await?;
        self.open_inputs(of.org, &environment, &mut bundle, &mut kept).await?;
        let referred = self.refer_to_stores(of.org, &environment, &bundle, &mut kept).await?;
        if let Err(reason) = referred {
            return Ok(Err(reason));
        }
        let plan = Box::pin(self.plan_task(of.org, deployment)).await?;
        let policy = Box::pin(self.job_policy(of.org, deployment, &environment)).await?;
        let former_inputs = self.former_inputs(of.org, &environment, deployment.id).await?;
        kept.former_secrets.extend(former_inputs);
        Ok(Ok(Job {
            deployment_id: deployment.id,
            attempt: of.number,
            fence: attempt.fence,
            project_id: deployment.project.clone(),
            env_id: deployment.env.clone(),
            env_uuid: deployment.env_uuid,
            env_type_id: Some(environment.env_type_id.clone()),
            mode: deployment.mode,
            plan_only: deployment.plan_only,
            bundle,
            backend,
            state,
            max_deletions: environment.allowed_deletions(deployment.max_deletions),
            executable,
            environment: variables,
            secret_variables: SecretVariables::of(&definition),
            variables: kept.variables,
            stored_variables: kept.stored_variables,
            former_secrets: kept.former_secrets,
            git_credentials: kept.git_credentials,
            plan,
            policy,
            identity,
            stop_seconds: attempt.limits.stop,
        }))
    }
}

/// The program and its variables in a local runner's definition. For other runner types, the job's container has
/// the environment and the image has OpenTofu.
fn local_settings(
    definition: &RunnerDefinition,
) -> (Executable, std::collections::BTreeMap<String, String>) {
    match &definition.configuration {
        RunnerConfiguration::Local(local) => {
            let job = local.job.as_ref();
            let executable = match job.and_then(|job| job.executable) {
                None => Executable::Any,
                Some(Program::Tofu) => Executable::Tofu,
                Some(Program::Terraform) => Executable::Terraform,
            };
            (executable, job.and_then(|job| job.environment.clone()).unwrap_or_default())
        }
        _ => (Executable::Any, std::collections::BTreeMap::new()),
    }
}
