//! The agents that may launch jobs of a runner, and a summary of their state.

use super::dispatcher::AgentDispatcher;
use canyon_dispatch::AgentNeed;
use canyon_domain::agent::{Adoption, Agent, waiting_reason};
use canyon_domain::agent_job::AgentJob;
use canyon_domain::agent_job::room::have_room;
use canyon_domain::causes::Causes;
use canyon_domain::ids::AgentId;
use canyon_domain::runner::agents::AgentTarget;
use canyon_store::StoreError;
use std::sync::Arc;

impl AgentDispatcher {
    /// The agent selector of the runner, or of the profile that the deployment uses.
    pub(super) fn agent_target(&self) -> Option<&AgentTarget> {
        let settings = self.target.definition.configuration.agent_settings();
        settings.and_then(|settings| settings.agents.as_ref())
    }

    /// The agents that may launch jobs of the runner, or only the agent that the deployment names.
    pub(super) async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        let (runner, target) = (&self.target.runner_id, self.agent_target());
        if let Some(only) = &self.target.agent {
            // Read it again rather than from the cache: if the agent no longer exists, the job ends.
            let found = self.platform.table.agent(self.target.org, &only.id).await?;
            // If a user's own machine was deleted, its name may be another user's machine now.
            let may = |agent: &Agent| {
                agent.may_serve_alone(runner, target) && agent.launches_for(only.by)
            };
            return Ok(found.into_iter().filter(may).collect());
        }
        let all = self.all_agents().await?;
        Ok(all.iter().filter(|agent| agent.may_serve(runner, target)).cloned().collect())
    }

    async fn all_agents(&self) -> Result<Arc<[Agent]>, StoreError> {
        let org = self.target.org;
        let read = || async move { Ok(self.platform.table.all_agents(org).await?.into()) };
        self.platform.known.get_or_read(org, self.now(), read).await
    }

    /// The agents that a profile of the runner may select.
    async fn agents_of_profiles(&self) -> Result<Vec<Agent>, StoreError> {
        let all = self.all_agents().await?;
        let may = |agent: &&Agent| {
            let its_own = agent.runner.as_ref().is_none_or(|own| *own == self.target.runner_id);
            agent.adoption == Adoption::Adopted && !agent.reserved && its_own
        };
        Ok(all.iter().filter(may).cloned().collect())
    }

    /// The agent that holds the job, if it may no longer launch jobs of the runner because its
    /// labels, the runner's `agents` or the profile changed. It keeps the job while its session
    /// lives. A rejected agent cannot report on the job, so it is not returned.
    pub(super) async fn outsider(
        &self,
        job: &AgentJob,
        agents: &[Agent],
    ) -> Result<Option<Agent>, StoreError> {
        let is_outside = |id: &&AgentId| agents.iter().all(|agent| agent.id != **id);
        let holder = job.holder.as_ref().map(|taken| &taken.agent);
        let Some(holder) = holder.filter(is_outside) else { return Ok(None) };
        let found = self.platform.table.agent(self.target.org, holder).await?;
        Ok(found.filter(|agent| agent.adoption == Adoption::Adopted))
    }

    /// Lists the connected agents that take the runner's jobs.
    ///
    /// # Errors
    ///
    /// A text for people: why no agent takes them, or that the agents cannot be read.
    pub(super) async fn connected(&self) -> Result<String, String> {
        let (id, kind) = (&self.target.runner_id, self.target.definition.runner_type());
        let settings = self.target.definition.configuration.agent_settings();
        // A check belongs to no deployment, so the profile that a job would use is not known.
        let by_profile = settings.is_some_and(|settings| settings.profile.is_some());
        let agents = if by_profile { self.agents_of_profiles().await } else { self.agents().await };
        let agents = agents.map_err(|error| Causes(&error).to_string())?;
        let now = self.now();
        let able: Vec<_> = agents
            .iter()
            .filter(|agent| agent.has_room(kind, now))
            .map(|agent| agent.id.as_str())
            .collect();
        let choice = if by_profile {
            "; the runner's profile chooses among them for each deployment"
        } else {
            ""
        };
        if able.is_empty() {
            return Err(format!(
                "{}{choice}",
                waiting_reason(&agents, id, self.agent_target(), kind, now)
            ));
        }
        Ok(format!("these agents are connected and take its jobs: {}{choice}", able.join(", ")))
    }

    /// Why no agent fulfils `need` for a new job of the runner; `None` if one does. `None` also if the deployment
    /// names an agent: its job waits for that agent, and ends if the agent is deleted.
    pub(super) async fn missing_agents(&self, need: AgentNeed) -> Option<String> {
        if self.target.agent.is_some() {
            return None;
        }
        // If the table cannot be read, the launch reports the failure.
        let agents = self.agents().await.ok()?;
        let (kind, now) = (self.target.definition.runner_type(), self.now());
        let is_missing = match need {
            AgentNeed::Presence => agents.iter().all(|agent| !agent.is_at_work(kind, now)),
            AgentNeed::Room => {
                let (org, runner) = (self.target.org, self.target.runner);
                let jobs = self.platform.table.agent_jobs(org, runner).await.ok()?;
                !have_room(&agents, &jobs, kind, now)
            }
        };
        is_missing.then(|| {
            waiting_reason(&agents, &self.target.runner_id, self.agent_target(), kind, now)
        })
    }
}
