//! The values that a job gets for its module's variables.

use super::App;
use crate::app::error::AppError;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::job::Inputs;
use canyon_domain::run_context::{RunContext, is_template};
use canyon_domain::variables::job::JobVariable;

impl App {
    /// Replaces references to the run in the inputs of a deployment and in the kept variables that are no secrets. One
    /// request, if there is a reference.
    pub(super) async fn fill_in(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        environment: &Environment,
        inputs: &mut Inputs,
        kept: &mut [JobVariable],
    ) -> Result<(), AppError> {
        let is_open = |one: &&mut JobVariable| !one.secret && is_template(one.value.expose());
        let kept: Vec<_> = kept.iter_mut().filter(is_open).collect();
        if kept.is_empty() && !inputs.values().any(is_template) {
            return Ok(());
        }
        let organization = self.table.organization(org).await?;
        let organization =
            organization.ok_or_else(|| AppError::conflict("the organization is gone"))?;
        let context = RunContext {
            org: organization.id,
            project: deployment.project.clone(),
            env: deployment.env.clone(),
            env_type: environment.env_type_id.clone(),
            deployment: deployment.id,
            runner: deployment.runner.clone(),
        };
        context.expand_all(inputs);
        for variable in kept {
            variable.value = context.expand(variable.value.expose()).into();
        }
        Ok(())
    }
}
