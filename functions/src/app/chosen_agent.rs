//! The check of the agent that a deployment chooses to launch it.

use super::App;
use super::deploy::DeploymentRequest;
use crate::app::error::AppError;
use canyon_domain::ids::RunnerId;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::runner::RunnerDefinition;

impl App {
    /// Refuses a deployment request whose chosen agent could never launch it.
    pub(super) async fn check_chosen_agent(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        runner: &RunnerId,
    ) -> Result<(), AppError> {
        let Some(id) = &order.agent else { return Ok(()) };
        let missing = || format!("there is no agent `{id}`");
        // Only a reader of the whole organization learns which agents and runners exist.
        let fault = |reason: String| {
            let reason = if by.role >= Role::Viewer { reason } else { missing() };
            Err(AppError::invalid("agent", reason))
        };
        let found = self.table.runner(by.org, runner).await?;
        let definition = found
            .and_then(|found| serde_json::from_str(&found.definition).ok())
            .and_then(|value| RunnerDefinition::parse_stored(value).ok());
        let Some(definition) = definition else {
            return fault(format!("runner `{runner}` is gone, or its definition cannot be read"));
        };
        if !definition.may_have_agent() {
            let kind = definition.runner_type();
            return fault(format!(
                "runner `{runner}` is of type `{kind}`, whose jobs no agent launches: Canyon itself launches them"
            ));
        }
        let Some(agent) = self.table.agent(by.org, id).await? else {
            return fault(missing());
        };
        // A reserved agent is one user's own machine, with that user's credentials. It runs no module of others.
        if !agent.launches_for(by.id) {
            return fault(missing());
        }
        let settings = definition.configuration.agent_settings();
        let target = settings.and_then(|settings| settings.agents.as_ref());
        // If Canyon itself launches a runner's jobs, only an agent that was adopted for that runner may take one.
        let may = agent.may_serve_alone(runner, target) && (agent.reserved || settings.is_some());
        if may {
            return Ok(());
        }
        fault(format!("agent `{id}` may not launch jobs of runner `{runner}`"))
    }
}
