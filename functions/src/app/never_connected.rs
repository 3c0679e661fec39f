//! Whether any agent could ever take the deployments of an environment.

use super::App;
use super::runners::stored_definition;
use crate::app::error::AppError;
use canyon_domain::agent::{Adoption, Agent, waiting_reason};
use canyon_domain::ids::{OrgUuid, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::runner::RunnerDefinition;
use canyon_store::page::PageRequest;

impl App {
    /// Why a deployment to the environment would wait until it fails: only agents launch the jobs of its runner and of the
    /// fallbacks, and none has ever connected or asked to be adopted. `None` if that is not so, if an administrator has
    /// disabled one of these runners, because there the wait is intended, and if one keeps states where its agents are.
    pub(crate) async fn no_agent_reason(
        &self,
        org: OrgUuid,
        environment: &Environment,
    ) -> Result<Option<String>, AppError> {
        let mut of_own = None;
        for runner in environment.runner_ids() {
            let Some(reason) = self.never_connected(org, runner).await? else { return Ok(None) };
            of_own.get_or_insert(reason);
        }
        Ok(of_own)
    }

    async fn never_connected(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
    ) -> Result<Option<String>, AppError> {
        let found = self.table.runner(org, runner).await?.filter(|found| !found.disabled);
        let definition = found.and_then(|found| stored_definition(&found).ok());
        let Some(definition) = definition.filter(RunnerDefinition::needs_agent) else {
            return Ok(None);
        };
        if definition.state_platform().is_some() {
            // A run on another machine would find no state there, and leave one that no agent finds.
            return Ok(None);
        }
        let settings = definition.configuration.agent_settings();
        // A profile may select other agents for each deployment.
        let by_profile = settings.is_some_and(|settings| settings.profile.is_some());
        let target = settings.and_then(|settings| settings.agents.as_ref());
        let could_serve = |agent: &Agent| {
            let is_selectable = agent.adoption != Adoption::Rejected && !agent.reserved;
            let its_own = agent.runner.as_ref().is_none_or(|own| own == runner);
            agent.could_serve(runner, target) || by_profile && is_selectable && its_own
        };
        let first = PageRequest { limit: 1, after: None };
        let known = self.table.agents(org, &first, could_serve).await?;
        // With very many agents of other runners, the search may end without a result.
        if !known.items.is_empty() || known.next.is_some() {
            return Ok(None);
        }
        let kind = definition.runner_type();
        Ok(Some(waiting_reason(&[], runner, target, kind, self.now())))
    }
}
