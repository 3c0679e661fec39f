//! The runner profile that a deployment uses.

use crate::{LaunchError, Launcher};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{OrgUuid, RunnerId, RunnerProfileId};
use canyon_domain::run_context::{RunContext, is_template};
use canyon_domain::runner::RunnerDefinition;
use canyon_domain::runner::profile::ProfileContext;

impl Launcher {
    /// The runner's definition merged with the profile that the runner names for this deployment,
    /// or the reason why there is no such profile.
    pub(crate) async fn with_profile(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
        definition: &RunnerDefinition,
        deployment: &Deployment,
    ) -> Result<Result<RunnerDefinition, String>, LaunchError> {
        let settings = definition.configuration.agent_settings();
        let Some(name) = settings.and_then(|settings| settings.profile.as_ref()) else {
            return Ok(Ok(definition.clone()));
        };
        let (project, env) = (&deployment.project, &deployment.env);
        let Some(environment) = self.table.environment(org, project, env).await? else {
            return Ok(Err("its environment was deleted".to_owned()));
        };
        let bundle = self.table.bundle(org, deployment.id).await?;
        let mut variables = bundle.map(|bundle| bundle.module.inputs).unwrap_or_default();
        if variables.values().any(is_template)
            && let Some(of) = self.organization(org).await?
        {
            let context = RunContext {
                org: of,
                project: project.clone(),
                env: env.clone(),
                env_type: environment.env_type_id.clone(),
                deployment: deployment.id,
                runner: runner.clone(),
            };
            context.expand_all(&mut variables);
        }
        let named = if name.asks_the_project() {
            self.table.project(org, project).await?.and_then(|project| project.profile)
        } else {
            None
        };
        let place = ProfileContext {
            project: project.clone(),
            environment: env.clone(),
            env_type: environment.env_type_id,
            project_profile: named,
        };
        let name = match name.interpolate(&place, &variables) {
            Ok(name) => name,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let missing = || {
            format!(
                "runner `{runner}` uses the profile `{name}` for this deployment, but that profile does not exist; \
                 create it with: canyon create runner-profile {name}"
            )
        };
        let Ok(id) = name.parse::<RunnerProfileId>() else { return Ok(Err(missing())) };
        let Some(profile) = self.table.runner_profile(org, &id).await? else {
            return Ok(Err(missing()));
        };
        Ok(profile.settings.applied_to(definition).map_err(|faults| {
            format!("the profile `{id}` does not fit runner `{runner}`: {faults}")
        }))
    }
}
