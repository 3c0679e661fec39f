//! The one agent that somebody asks to launch a deployment.

use super::App;
use super::deploy::Order;
use crate::app::error::AppError;
use canyon_domain::ids::RunnerId;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::runner::RunnerDefinition;

impl App {
    /// Refuses an order whose agent could never launch it.
    pub(super) async fn check_chosen_agent(
        &self,
        by: &Principal,
        order: &Order,
        runner: &RunnerId,
    ) -> Result<(), AppError> {
        let Some(id) = &order.agent else { return Ok(()) };
        let missing = || format!("there is no agent `{id}`");
        // Which agents and runners there are is the organization's.
        let fault = |reason: String| {
            let told = if by.role >= Role::Viewer { reason } else { missing() };
            Err(AppError::invalid("agent", told))
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
                "runner `{runner}` is of type `{kind}`, whose jobs no agent launches: Canyon does itself"
            ));
        }
        let Some(agent) = self.table.agent(by.org, id).await? else {
            return fault(missing());
        };
        // A machine of a person's own, with what that person has there: no other's module runs on it.
        if !agent.launches_for(by.id) {
            return fault(missing());
        }
        let settings = definition.configuration.agent_settings();
        let target = settings.and_then(|settings| settings.agents.as_ref());
        // Of a runner whose jobs Canyon launches itself, only what was adopted for that takes one.
        let may = agent.may_serve_alone(runner, target) && (agent.reserved || settings.is_some());
        if may {
            return Ok(());
        }
        fault(format!("agent `{id}` may not launch jobs of runner `{runner}`"))
    }
}
